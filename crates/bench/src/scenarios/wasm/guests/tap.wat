;; Reads records of 16 bytes from a ring, a number that counts and the nanosecond at which it was due, and notes how late each is.
;;
;; Gets a reader. At the end of the ring it sends its parent the numbers that it has missed, then the nanoseconds of each.
(module
  (import "rusm" "parent" (func $parent (result i64)))
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
  (import "rusm" "now_ns" (func $now_ns (result i64)))
  (import "rusm" "stream_accept" (func $accept (result i64)))
  (import "rusm" "stream_read" (func $read (param i64 i32 i32) (result i32)))
  (memory (export "memory") {pages})
  (func (export "run") (local $stream i64) (local $have i32) (local $n i32) (local $p i32) (local $next i64) (local $missed i64)
    (drop (call $receive (i64.const -1)))
    (local.set $stream (call $accept))
    (local.set $p (i32.const 1032))
    (loop $again
      (local.set $n (call $read (local.get $stream) (local.get $have) (i32.sub (i32.const 16) (local.get $have))))
      (if (i32.lt_s (local.get $n) (i32.const 0)) (then unreachable))
      (if (local.get $n) (then
        (local.set $have (i32.add (local.get $have) (local.get $n)))
        (if (i32.eq (local.get $have) (i32.const 16)) (then
          (local.set $have (i32.const 0))
          (i64.store (local.get $p) (i64.sub (call $now_ns) (i64.load (i32.const 8))))
          (local.set $p (i32.add (local.get $p) (i32.const 8)))
          (local.set $missed (i64.add (local.get $missed) (i64.sub (i64.load (i32.const 0)) (local.get $next))))
          (local.set $next (i64.add (i64.load (i32.const 0)) (i64.const 1)))))
        (br $again))))
    (i64.store (i32.const 1024) (local.get $missed))
    (drop (call $send (call $parent) (i64.const 0) (i32.const 1024) (i32.sub (local.get $p) (i32.const 1024))))))
