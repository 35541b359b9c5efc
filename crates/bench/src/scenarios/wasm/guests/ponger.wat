;; Sends back what comes, to the pid that it begins with.
(module
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "item_len" (func $item_len (result i32)))
  (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
  (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
  (memory (export "memory") {pages})
  (func (export "run") (local $bytes i32)
    (loop $next
      (drop (call $receive (i64.const -1)))
      (local.set $bytes (call $item_len))
      (drop (call $item_read (i32.const 0) (local.get $bytes) (i32.const 0)))
      (drop (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 0) (local.get $bytes)))
      (br $next))))
