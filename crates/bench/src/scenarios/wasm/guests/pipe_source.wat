;; Writes chunks into a stream until it is told to stop: 16 different ones in turn.
;;
;; Gets a message of words, the bytes of a chunk; then the end of a stream. Makes its chunks, says so to its parent, and writes
;; from the next message on until there is another.
(module
  (import "rusm" "parent" (func $parent (result i64)))
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
  (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
  (import "rusm" "stream_accept" (func $accept (result i64)))
  (import "rusm" "stream_write" (func $write (param i64 i32 i32) (result i32)))
  (import "rusm" "stream_close" (func $close (param i64) (result i32)))
  (memory (export "memory") {pages})
  (func (export "run") (local $stream i64) (local $chunk i32) (local $p i32) (local $end i32) (local $x i64) (local $n i32)
    (drop (call $receive (i64.const -1)))
    (drop (call $item_read (i32.const 512) (i32.const 8) (i32.const 0)))
    (local.set $chunk (i32.load (i32.const 512)))
    (drop (call $receive (i64.const -1)))
    (local.set $stream (call $accept))
    ;; Words of one xorshift, from 1024 on.
    (local.set $p (i32.const 1024))
    (local.set $end (i32.add (i32.const 1024) (i32.shl (local.get $chunk) (i32.const 4))))
    (local.set $x (i64.const 0x9e3779b97f4a7c15))
    (loop $fill
      (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 13))))
      (local.set $x (i64.xor (local.get $x) (i64.shr_u (local.get $x) (i64.const 7))))
      (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 17))))
      (i64.store (local.get $p) (local.get $x))
      (br_if $fill (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 8))) (local.get $end))))
    (drop (call $send (call $parent) (i64.const 0) (i32.const 512) (i32.const 8)))
    (drop (call $receive (i64.const -1)))
    (local.set $p (i32.const 1024))
    (loop $again
      (if (call $write (local.get $stream) (local.get $p) (local.get $chunk)) (then unreachable))
      (local.set $p (i32.add (local.get $p) (local.get $chunk)))
      (if (i32.eq (local.get $p) (local.get $end)) (then (local.set $p (i32.const 1024))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      ;; Looking for a message is a call, so only one chunk in eight is followed by one.
      (br_if $again (i32.and (local.get $n) (i32.const 7)))
      (br_if $again (i32.eqz (call $receive (i64.const 0)))))
    (drop (call $close (local.get $stream)))))
