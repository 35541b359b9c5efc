;; A process that writes one word to its one page of memory, to measure the cost of memory in a spawn.
(module
  (memory (export "memory") 1)
  (func (export "run") (result i32)
    (i32.store (i32.const 1024) (i32.const 42))
    (i32.load (i32.const 1024))))
