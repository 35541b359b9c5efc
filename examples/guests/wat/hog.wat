;; A process that allocates memory until it reaches its limit. The limit ends this process and no other.
(module
  (memory (export "memory") 1)
  (func (export "run")
    (local $page i32)
    (loop $more
      (local.set $page (memory.grow (i32.const 1)))
      (if (i32.eq (local.get $page) (i32.const -1)) (then (return)))
      ;; Write to the memory: untouched pages are never allocated.
      (memory.fill (i32.shl (local.get $page) (i32.const 16)) (i32.const 0xA5) (i32.const 65536))
      (br $more))))
