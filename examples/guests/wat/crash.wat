;; A process that ends in the way given by the first letter of its first argument, or of a message without arguments:
;; return, error, close (shutdown with a text), divide, bounds, infinite recursion; any other letter is a trap.
(module
  (import "rusm" "arg_read" (func $arg_read (param $at i32) (param $place i32) (param $bytes i32) (result i32)))
  (import "rusm" "arg_count" (func $arg_count (result i32)))
  (import "rusm" "receive" (func $receive (param $timeout_ms i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param $place i32) (param $bytes i32) (param $from i32) (result i32)))
  (import "rusm" "self" (func $self (result i64)))
  (import "rusm" "exit"
    (func $exit (param $pid i64) (param $reason i32) (param $place i32) (param $bytes i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "no more coins")
  (data (i32.const 32) "closing time")

  (func $recurse (param $depth i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get $depth) (i32.const 1))) (local.get $depth)))

  ;; Returns 1 if the requested way begins with this letter.
  (func $is (param $letter i32) (result i32)
    (i32.eq (i32.load8_u (i32.const 0)) (local.get $letter)))

  (func (export "run")
    (if (call $arg_count)
      (then (drop (call $arg_read (i32.const 0) (i32.const 0) (i32.const 1))))
      (else
        (loop $next (br_if $next (i32.ne (call $receive (i64.const -1)) (i32.const 1))))
        (drop (call $item_read (i32.const 0) (i32.const 1) (i32.const 0)))))
    (if (call $is (i32.const 0x72 (; r ;))) (then (return)))
    (if (call $is (i32.const 0x65 (; e ;)))
      (then (drop (call $exit (call $self) (i32.const 4) (i32.const 16) (i32.const 13)))))
    (if (call $is (i32.const 0x63 (; c ;)))
      (then (drop (call $exit (call $self) (i32.const 2) (i32.const 32) (i32.const 12)))))
    (if (call $is (i32.const 0x64 (; d ;))) (then (drop (i32.div_u (i32.const 1) (i32.const 0)))))
    (if (call $is (i32.const 0x62 (; b ;))) (then (drop (i32.load (i32.const -16)))))
    (if (call $is (i32.const 0x69 (; i ;))) (then (drop (call $recurse (i32.const 0)))))
    unreachable))
