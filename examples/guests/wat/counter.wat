;; A supervised server with state, called by its registered name.
;;
;;   run ──▶ supervisor ──▶ counter      tag 1 ──▶ increments the count and replies it; tag 2 ──▶ traps,
;;                             ✗         is restarted, and counts from 0
;;
;; Without arguments it demonstrates all of this; with any argument it runs only the counter.
(module
  (import "rusm" "arg_count" (func $arg_count (result i32)))
  (import "rusm" "supervisor_child"
    (func $supervisor_child
      (param $id i32) (param $id_bytes i32) (param $module i32) (param $module_bytes i32)
      (param $args i32) (param $args_bytes i32) (param $profile i32) (param $profile_bytes i32)
      (param $name i32) (param $name_bytes i32) (param $memory_max i64) (param $restart i32) (param $shutdown_ms i64)
      (result i32)))
  (import "rusm" "supervisor_start"
    (func $supervisor_start (param $strategy i32) (param $intensity i32) (param $period_ms i64) (result i64)))
  (import "rusm" "whereis" (func $whereis (param $place i32) (param $bytes i32) (result i64)))
  (import "rusm" "sleep" (func $sleep (param $ms i64)))
  (import "rusm" "call"
    (func $call (param $to i64) (param $tag i64) (param $place i32) (param $bytes i32) (param $timeout_ms i64) (result i32)))
  (import "rusm" "receive" (func $receive (param $timeout_ms i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param $place i32) (param $bytes i32) (param $from i32) (result i32)))
  (import "rusm" "item_tag" (func $item_tag (result i64)))
  (import "rusm" "item_reply" (func $item_reply (result i64)))
  (import "rusm" "reply" (func $reply (param $to i64) (param $place i32) (param $bytes i32) (result i32)))
  (import "rusm" "unlink" (func $unlink (param $pid i64)))
  (import "rusm" "exit"
    (func $exit (param $pid i64) (param $reason i32) (param $place i32) (param $bytes i32) (result i32)))
  (import "rusm" "log" (func $log (param $level i32) (param $place i32) (param $bytes i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "counter")
  (data (i32.const 80) "serve")
  (data (i32.const 96) "counted to 2, and after a crash to 1")

  (func $serve
    (local $count i64)
    (loop $next
      (br_if $next (i32.ne (call $receive (i64.const -1)) (i32.const 1)))
      (if (i64.eq (call $item_tag) (i64.const 2)) (then unreachable))
      (local.set $count (i64.add (local.get $count) (i64.const 1)))
      (i64.store (i32.const 0) (local.get $count))
      (drop (call $reply (call $item_reply) (i32.const 0) (i32.const 8)))
      (br $next)))

  ;; Waits for the counter and returns its pid: after a crash its name is free until the supervisor has restarted it.
  (func $find (result i64)
    (local $pid i64)
    (loop $again
      (local.set $pid (call $whereis (i32.const 64) (i32.const 7)))
      (if (i64.eqz (local.get $pid)) (then (call $sleep (i64.const 1)) (br $again))))
    (local.get $pid))

  ;; Increments the counter and returns the count, or 0 if the call failed.
  (func $count (result i64)
    (if (call $call (call $find) (i64.const 1) (i32.const 0) (i32.const 0) (i64.const 5000)) (then (return (i64.const 0))))
    (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
    (i64.load (i32.const 0)))

  (func $show
    (local $supervisor i64)
    ;; A child of this module, registered as `counter`, permanent, with five seconds to stop.
    (if (call $supervisor_child
          (i32.const 64) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 80) (i32.const 5) (i32.const 0) (i32.const 0)
          (i32.const 64) (i32.const 7) (i64.const 0) (i32.const 0) (i64.const 5000))
      (then unreachable))
    (local.set $supervisor (call $supervisor_start (i32.const 0) (i32.const 3) (i64.const 5000)))
    (if (i64.le_s (local.get $supervisor) (i64.const 0)) (then unreachable))
    (if (i64.ne (call $count) (i64.const 1)) (then unreachable))
    (if (i64.ne (call $count) (i64.const 2)) (then unreachable))
    ;; The call returns the error that the callee has ended.
    (if (i32.ne (call $call (call $find) (i64.const 2) (i32.const 0) (i32.const 0) (i64.const 5000)) (i32.const -5))
      (then unreachable))
    (if (i64.ne (call $count) (i64.const 1)) (then unreachable))
    (call $log (i32.const 2) (i32.const 96) (i32.const 36))
    (call $unlink (local.get $supervisor))
    (drop (call $exit (local.get $supervisor) (i32.const 1) (i32.const 0) (i32.const 0))))

  (func (export "run")
    (if (call $arg_count) (then (call $serve)) (else (call $show)))))
