;; Two processes send a number back and forth.
;;
;;   pinger ── pid of the pinger, number ──▶ ponger
;;          ◀────── number ─────────────────
;;
;; Without arguments it starts its own ponger and makes 10,000 round trips; with any argument it runs only the ponger.
(module
  (import "rusm" "arg_count" (func $arg_count (result i32)))
  (import "rusm" "self" (func $self (result i64)))
  (import "rusm" "spawn"
    (func $spawn
      (param $name i32) (param $name_bytes i32) (param $args i32) (param $args_bytes i32)
      (param $profile i32) (param $profile_bytes i32) (param $ties i32) (result i64)))
  (import "rusm" "send"
    (func $send (param $to i64) (param $tag i64) (param $place i32) (param $bytes i32) (result i32)))
  (import "rusm" "receive" (func $receive (param $timeout_ms i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param $place i32) (param $bytes i32) (param $from i32) (result i32)))
  (import "rusm" "unlink" (func $unlink (param $pid i64)))
  (import "rusm" "exit"
    (func $exit (param $pid i64) (param $reason i32) (param $place i32) (param $bytes i32) (result i32)))
  (import "rusm" "log" (func $log (param $level i32) (param $place i32) (param $bytes i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "pong")
  (data (i32.const 80) "10000 round trips")

  ;; Waits for a message and copies it to the beginning of the memory.
  (func $next
    (loop $again (br_if $again (i32.ne (call $receive (i64.const -1)) (i32.const 1))))
    (drop (call $item_read (i32.const 0) (i32.const 16) (i32.const 0))))

  (func $ping
    (local $ponger i64) (local $number i64)
    (local.set $ponger
      (call $spawn
        (i32.const 0) (i32.const 0) (i32.const 64) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 1)))
    ;; The result is a status below 0 without the capability or beyond a limit.
    (if (i64.le_s (local.get $ponger) (i64.const 0)) (then unreachable))
    (loop $round
      (i64.store (i32.const 0) (call $self))
      (i64.store (i32.const 8) (local.get $number))
      (if (call $send (local.get $ponger) (i64.const 0) (i32.const 0) (i32.const 16)) (then unreachable))
      (call $next)
      (if (i64.ne (i64.load (i32.const 0)) (local.get $number)) (then unreachable))
      (local.set $number (i64.add (local.get $number) (i64.const 1)))
      (br_if $round (i64.lt_u (local.get $number) (i64.const 10000))))
    (call $log (i32.const 2) (i32.const 80) (i32.const 17))
    (call $unlink (local.get $ponger))
    (drop (call $exit (local.get $ponger) (i32.const 1) (i32.const 0) (i32.const 0))))

  (func $pong
    (loop $round
      (call $next)
      (drop (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 8) (i32.const 8)))
      (br $round)))

  (func (export "run")
    (if (call $arg_count) (then (call $pong)) (else (call $ping)))))
