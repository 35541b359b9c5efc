;; A process that takes memory until it may not: its end is the limit's, and nobody else's.
(module
  (memory (export "memory") 1)
  (func (export "run")
    (local $page i32)
    (loop $more
      (local.set $page (memory.grow (i32.const 1)))
      (if (i32.eq (local.get $page) (i32.const -1)) (then (return)))
      ;; Written, and not only asked for: memory that nobody touches costs nothing.
      (memory.fill (i32.shl (local.get $page) (i32.const 16)) (i32.const 0xA5) (i32.const 65536))
      (br $more))))
