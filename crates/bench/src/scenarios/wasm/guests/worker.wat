;; An instance with memory that holds data, and a word of work in it.
(module
  (memory (export "memory") {pages})
  (data (i32.const 1024) "some data")
  (func (export "run")
    (i32.store (i32.const 2048) (i32.load (i32.const 1024)))))
