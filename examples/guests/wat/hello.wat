;; A process that logs a greeting and exits, written in WebAssembly text. The functions of the module `rusm` are listed
;; at the head of crates/runtime/src/wasm/raw.rs.
(module
  (import "rusm" "log" (func $log (param $level i32) (param $place i32) (param $bytes i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "hello, world")
  (func (export "run")
    (call $log (i32.const 2) (i32.const 16) (i32.const 12))))
