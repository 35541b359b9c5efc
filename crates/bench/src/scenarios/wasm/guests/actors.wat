;; The seven actors of timer-firing: the kernels of kernels.rs, on memory that is laid out as it lays it out.
;;
;; Gets the signals as they are, then messages of two words: which actor, and how often it is to fire. Answers each with the
;; nanoseconds that took, and one for actor 7 with the signals as they are now.
(module
  (import "rusm" "parent" (func $parent (result i64)))
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
  (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
  (import "rusm" "now_ns" (func $now_ns (result i64)))
  (memory (export "memory") {pages})
  ;; At 1024 samples, 1280 factors, 1536 taps, 1600 and 2624 the signal, 3648 its real part, 4672 cosines and sines, 5696 the
  ;; result.

  (func $mul (local $p i32)
    (loop $again
      (v128.store offset=1024 (local.get $p)
        (f32x4.mul (v128.load offset=1024 (local.get $p)) (v128.load offset=1280 (local.get $p))))
      (br_if $again (i32.ne (local.tee $p (i32.add (local.get $p) (i32.const 16))) (i32.const 256)))))

  (func $add
    (f32.store (i32.const 5696) (f32.add (f32.load (i32.const 5696)) (f32.load (i32.const 1024)))))

  (func $fir (local $p i32) (local $sum f32)
    (local.set $sum (f32.const -0))
    (loop $again
      (local.set $sum (f32.add (local.get $sum)
        (f32.mul (f32.load offset=1024 (local.get $p)) (f32.load offset=1536 (local.get $p)))))
      (br_if $again (i32.ne (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 64))))
    (f32.store (i32.const 5696) (local.get $sum)))

  (func $mean (local $p i32) (local $sum f32)
    (local.set $sum (f32.const -0))
    (loop $again
      (local.set $sum (f32.add (local.get $sum) (f32.load offset=1024 (local.get $p))))
      (br_if $again (i32.ne (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 256))))
    (f32.store (i32.const 5696) (f32.div (local.get $sum) (f32.const 64))))

  (func $rms (local $p i32) (local $sum f32) (local $x f32)
    (local.set $sum (f32.const -0))
    (loop $again
      (local.set $x (f32.load offset=1024 (local.get $p)))
      (local.set $sum (f32.add (local.get $sum) (f32.mul (local.get $x) (local.get $x))))
      (br_if $again (i32.ne (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 256))))
    (f32.store (i32.const 5696) (f32.sqrt (f32.div (local.get $sum) (f32.const 64)))))

  (func $c2r
    (memory.copy (i32.const 3648) (i32.const 1600) (i32.const 1024)))

  (func $swap (param $p i32) (param $q i32) (local $x f32)
    (local.set $x (f32.load offset=1600 (local.get $p)))
    (f32.store offset=1600 (local.get $p) (f32.load offset=1600 (local.get $q)))
    (f32.store offset=1600 (local.get $q) (local.get $x))
    (local.set $x (f32.load offset=2624 (local.get $p)))
    (f32.store offset=2624 (local.get $p) (f32.load offset=2624 (local.get $q)))
    (f32.store offset=2624 (local.get $q) (local.get $x)))

  ;; Numbers of places are bytes: a place is 4 of them, a pair of cosine and sine 8.
  (func $fft (local $i i32) (local $r i32) (local $half i32) (local $step i32) (local $start i32) (local $near i32) (local $far i32)
    (local $w i32) (local $cos f32) (local $sin f32) (local $a f32) (local $b f32) (local $re f32) (local $im f32)
    (loop $order
      (local.set $r (i32.or (i32.shr_u (i32.and (local.get $i) (i32.const 0xf0)) (i32.const 4)) (i32.shl (i32.and (local.get $i) (i32.const 0x0f)) (i32.const 4))))
      (local.set $r (i32.or (i32.shr_u (i32.and (local.get $r) (i32.const 0xcc)) (i32.const 2)) (i32.shl (i32.and (local.get $r) (i32.const 0x33)) (i32.const 2))))
      (local.set $r (i32.or (i32.shr_u (i32.and (local.get $r) (i32.const 0xaa)) (i32.const 1)) (i32.shl (i32.and (local.get $r) (i32.const 0x55)) (i32.const 1))))
      (if (i32.gt_u (local.get $r) (local.get $i)) (then
        (call $swap (i32.shl (local.get $i) (i32.const 2)) (i32.shl (local.get $r) (i32.const 2)))))
      (br_if $order (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 256))))
    (local.set $half (i32.const 4))
    (local.set $step (i32.const 1024))
    (loop $stage
      (local.set $start (i32.const 0))
      (loop $group
        (local.set $near (local.get $start))
        (local.set $far (i32.add (local.get $start) (local.get $half)))
        (local.set $w (i32.const 0))
        (loop $pair
          (local.set $cos (f32.load offset=4672 (local.get $w)))
          (local.set $sin (f32.load offset=4676 (local.get $w)))
          (local.set $a (f32.load offset=1600 (local.get $far)))
          (local.set $b (f32.load offset=2624 (local.get $far)))
          (local.set $re (f32.sub (f32.mul (local.get $a) (local.get $cos)) (f32.mul (local.get $b) (local.get $sin))))
          (local.set $im (f32.add (f32.mul (local.get $a) (local.get $sin)) (f32.mul (local.get $b) (local.get $cos))))
          (local.set $a (f32.load offset=1600 (local.get $near)))
          (local.set $b (f32.load offset=2624 (local.get $near)))
          (f32.store offset=1600 (local.get $far) (f32.sub (local.get $a) (local.get $re)))
          (f32.store offset=2624 (local.get $far) (f32.sub (local.get $b) (local.get $im)))
          (f32.store offset=1600 (local.get $near) (f32.add (local.get $a) (local.get $re)))
          (f32.store offset=2624 (local.get $near) (f32.add (local.get $b) (local.get $im)))
          (local.set $w (i32.add (local.get $w) (local.get $step)))
          (local.set $near (i32.add (local.get $near) (i32.const 4)))
          (local.set $far (i32.add (local.get $far) (i32.const 4)))
          (br_if $pair (i32.ne (local.get $near) (i32.add (local.get $start) (local.get $half)))))
        (local.set $start (i32.add (local.get $start) (i32.shl (local.get $half) (i32.const 1))))
        (br_if $group (i32.ne (local.get $start) (i32.const 1024))))
      (local.set $half (i32.shl (local.get $half) (i32.const 1)))
      (local.set $step (i32.shr_u (local.get $step) (i32.const 1)))
      (br_if $stage (i32.ne (local.get $half) (i32.const 1024))))
    (local.set $i (i32.const 0))
    (loop $scale
      (v128.store offset=1600 (local.get $i) (f32x4.div (v128.load offset=1600 (local.get $i)) (v128.const f32x4 16 16 16 16)))
      (br_if $scale (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 16))) (i32.const 2048)))))

  (type $actor (func))
  (table 7 7 funcref)
  (elem (i32.const 0) $mul $add $fft $fir $mean $c2r $rms)

  (func (export "run") (local $actor i32) (local $left i32) (local $before i64)
    (drop (call $receive (i64.const -1)))
    (drop (call $item_read (i32.const 1024) (i32.const 4676) (i32.const 0)))
    (loop $next
      (drop (call $receive (i64.const -1)))
      (drop (call $item_read (i32.const 0) (i32.const 16) (i32.const 0)))
      (local.set $actor (i32.load (i32.const 0)))
      (local.set $left (i32.load (i32.const 8)))
      (if (i32.eq (local.get $actor) (i32.const 7)) (then
        (drop (call $send (call $parent) (i64.const 0) (i32.const 1024) (i32.const 4676)))
        (br $next)))
      (local.set $before (call $now_ns))
      (loop $again
        (call_indirect (type $actor) (local.get $actor))
        (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
      (i64.store (i32.const 0) (i64.sub (call $now_ns) (local.get $before)))
      (drop (call $send (call $parent) (i64.const 0) (i32.const 0) (i32.const 8)))
      (br $next))))
