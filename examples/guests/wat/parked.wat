;; A process that waits, and answers each call with `pong`.
(module
  (import "rusm" "receive" (func $receive (param $timeout_ms i64) (result i32)))
  (import "rusm" "item_reply" (func $item_reply (result i64)))
  (import "rusm" "reply" (func $reply (param $to i64) (param $place i32) (param $bytes i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "pong")
  (func (export "run")
    (loop $next
      (drop (call $receive (i64.const -1)))
      (drop (call $reply (call $item_reply) (i32.const 16) (i32.const 4)))
      (br $next))))
