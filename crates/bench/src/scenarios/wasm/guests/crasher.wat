;; A child that crashes when it is told to. Its arguments are the pid of the conductor and its own number, in decimal. It
;; calls the conductor with its number and the time of its first instruction; the reply is the order to crash. Just before
;; it does, it sends its number and the time again.
(module
  (import "rusm" "arg_len" (func $arg_len (param i32) (result i32)))
  (import "rusm" "arg_read" (func $arg_read (param i32 i32 i32) (result i32)))
  (import "rusm" "call" (func $call (param i64 i64 i32 i32 i64) (result i32)))
  (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
  (import "rusm" "now_ns" (func $now_ns (result i64)))
  (memory (export "memory") 1)
  (func $number (param $argument i32) (result i64)
    (local $place i32) (local $end i32) (local $number i64)
    (local.set $place (i32.const 128))
    (local.set $end (i32.add (i32.const 128) (call $arg_len (local.get $argument))))
    (drop (call $arg_read (local.get $argument) (i32.const 128) (call $arg_len (local.get $argument))))
    (block $done
      (loop $digit
        (br_if $done (i32.ge_u (local.get $place) (local.get $end)))
        (local.set $number
          (i64.add
            (i64.mul (local.get $number) (i64.const 10))
            (i64.extend_i32_u (i32.sub (i32.load8_u (local.get $place)) (i32.const 48)))))
        (local.set $place (i32.add (local.get $place) (i32.const 1)))
        (br $digit)))
    (local.get $number))
  (func (export "run") (local $conductor i64)
    (i64.store (i32.const 8) (call $now_ns))
    (local.set $conductor (call $number (i32.const 0)))
    (i64.store (i32.const 0) (call $number (i32.const 1)))
    (drop (call $call (local.get $conductor) (i64.const 0) (i32.const 0) (i32.const 16) (i64.const -1)))
    (i64.store (i32.const 8) (call $now_ns))
    (drop (call $send (local.get $conductor) (i64.const 0) (i32.const 0) (i32.const 16)))
    unreachable))
