;; A process with a page of memory and a word of work in it: what the memory of a spawn costs.
(module
  (memory (export "memory") 1)
  (func (export "run") (result i32)
    (i32.store (i32.const 1024) (i32.const 42))
    (i32.load (i32.const 1024))))
