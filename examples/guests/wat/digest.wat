;; A service that computes SHA-2 digests of the bodies of calls. The tag selects: 384, 512, otherwise SHA-256.
(module
  (import "rusm" "receive" (func $receive (param $timeout_ms i64) (result i32)))
  (import "rusm" "item_len" (func $item_len (result i32)))
  (import "rusm" "item_read" (func $item_read (param $place i32) (param $bytes i32) (param $from i32) (result i32)))
  (import "rusm" "item_tag" (func $item_tag (result i64)))
  (import "rusm" "item_reply" (func $item_reply (result i64)))
  (import "rusm" "reply" (func $reply (param $to i64) (param $place i32) (param $bytes i32) (result i32)))
  (import "rusm" "digest"
    (func $digest (param $hash i32) (param $place i32) (param $bytes i32) (param $out i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 64) "error: more than 65536 bytes")

  ;; Returns the number of the hash function for a tag.
  (func $hash (param $tag i64) (result i32)
    (if (i64.eq (local.get $tag) (i64.const 384)) (then (return (i32.const 1))))
    (if (i64.eq (local.get $tag) (i64.const 512)) (then (return (i32.const 2))))
    (i32.const 0))

  (func (export "run")
    (local $bytes i32)
    (loop $next
      ;; Ignore items that are not messages.
      (br_if $next (i32.ne (call $receive (i64.const -1)) (i32.const 1)))
      (if (i32.gt_u (call $item_len) (i32.const 65536)) (then
        (drop (call $reply (call $item_reply) (i32.const 64) (i32.const 28)))
        (br $next)))
      (local.set $bytes (call $item_read (i32.const 65536) (call $item_len) (i32.const 0)))
      (local.set $bytes
        (call $digest (call $hash (call $item_tag)) (i32.const 65536) (local.get $bytes) (i32.const 0)))
      ;; Without the capability the digest fails: reply with no bytes.
      (if (i32.lt_s (local.get $bytes) (i32.const 0)) (then (local.set $bytes (i32.const 0))))
      (drop (call $reply (call $item_reply) (i32.const 0) (local.get $bytes)))
      (br $next))))
