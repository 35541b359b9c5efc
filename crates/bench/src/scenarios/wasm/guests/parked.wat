;; Waits; answers a call with its number of bytes of memory, and ends with a message that is none.
(module
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "item_reply" (func $item_reply (result i64)))
  (import "rusm" "reply" (func $reply (param i64 i32 i32) (result i32)))
  (memory (export "memory") {pages})
  (func (export "run") (local $asked i64)
    (loop $next
      (drop (call $receive (i64.const -1)))
      (local.set $asked (call $item_reply))
      (if (i64.ne (local.get $asked) (i64.const 0))
        (then
          (drop (call $reply (local.get $asked) (i32.const 0) (i32.const 0)))
          (br $next))))))
