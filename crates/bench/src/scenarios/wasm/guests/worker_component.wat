;; A component of the world rusm:runtime/actor with memory that holds data, and a word of work in it.
(component
  (core module $core
    (memory (export "memory") {pages})
    (data (i32.const 1024) "some data")
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 4096)
    (func (export "run") (param $args i32) (param $count i32) (result i32)
      (i32.store (i32.const 2048) (i32.load (i32.const 1024)))
      ;; Where the result lies: twelve zeros are `ok`.
      i32.const 16))
  (core instance $instance (instantiate $core))
  (func (export "run") (param "args" (list string)) (result (result (error string)))
    (canon lift (core func $instance "run")
      (memory (core memory $instance "memory")) (realloc (core func $instance "realloc")))))
