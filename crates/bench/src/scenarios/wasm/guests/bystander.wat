;; Takes as many turns as a call asks for, and replies how long it waited for each, in nanoseconds.
(module
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
  (import "rusm" "item_reply" (func $item_reply (result i64)))
  (import "rusm" "reply" (func $reply (param i64 i32 i32) (result i32)))
  (import "rusm" "now_ns" (func $now_ns (result i64)))
  (import "rusm" "yield" (func $yield))
  (memory (export "memory") 1)
  (func (export "run")
    (local $turns i32) (local $place i32) (local $began i64) (local $asked i64)
    (loop $next
      (drop (call $receive (i64.const -1)))
      (local.set $asked (call $item_reply))
      (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
      (local.set $turns (i32.load (i32.const 0)))
      (local.set $place (i32.const 0))
      (block $done
        (loop $turn
          (br_if $done (i32.eqz (local.get $turns)))
          (local.set $began (call $now_ns))
          (call $yield)
          (i64.store (local.get $place) (i64.sub (call $now_ns) (local.get $began)))
          (local.set $place (i32.add (local.get $place) (i32.const 8)))
          (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
          (br $turn)))
      (drop (call $reply (local.get $asked) (i32.const 0) (local.get $place)))
      (br $next))))
