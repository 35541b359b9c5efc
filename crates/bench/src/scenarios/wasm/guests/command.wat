;; A program of WASI preview 1: it asks for its arguments, as a C library does at its start, and returns.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (memory (export "memory") {pages})
  (func (export "_start")
    (drop (call $args_sizes_get (i32.const 0) (i32.const 4)))))
