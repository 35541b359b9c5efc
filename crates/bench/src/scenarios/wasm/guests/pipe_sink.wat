;; Reads a stream in chunks and compares the XXH3 of each with what it should be: 16 values in turn.
;;
;; Gets a message of words, the bytes of a chunk (a multiple of 1,024) and the 16 values; then the end of a stream. Sends its
;; parent how many chunks it has read and how many of them were wrong.
(module
  (import "rusm" "parent" (func $parent (result i64)))
  (import "rusm" "receive" (func $receive (param i64) (result i32)))
  (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
  (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
  (import "rusm" "stream_accept" (func $accept (result i64)))
  (import "rusm" "stream_read" (func $read (param i64 i32 i32) (result i32)))
  (memory (export "memory") {pages})
  ;; The secret of XXH3; its sums lie at 192, and what they begin with at 256.
  (data (i32.const 0)
    "\b8\fe\6c\39\23\a4\4b\be\7c\01\81\2c\f7\21\ad\1c\de\d4\6d\e9\83\90\97\db\72\40\a4\a4\b7\b3\67\1f"
    "\cb\79\e6\4e\cc\c0\e5\78\82\5a\d0\7d\cc\ff\72\21\b8\08\46\74\f7\43\24\8e\e0\35\90\e6\81\3a\26\4c"
    "\3c\28\52\bb\91\c3\00\cb\88\d0\65\8b\1b\53\2e\a3\71\64\48\97\a2\0d\f9\4e\38\19\ef\46\a9\de\ac\d8"
    "\a8\fa\76\3f\e3\9c\34\3f\f9\dc\bb\c7\c7\0b\4f\1d\8a\51\e0\4b\cd\b4\59\31\c8\9f\7e\c9\d9\78\73\64"
    "\ea\c5\ac\83\34\d3\eb\c3\c5\81\a0\ff\fa\13\63\eb\17\0d\dd\51\b7\f0\da\49\d3\16\55\26\29\d4\68\9e"
    "\2b\16\be\58\7d\47\a1\fc\8f\f8\b8\d1\7a\d0\31\ce\45\cb\3a\8f\95\16\04\28\af\d7\fb\ca\bb\4b\40\7e")
  (data (i32.const 256)
    "\3d\ae\b2\c2\00\00\00\00\87\ca\eb\85\b1\79\37\9e\4f\eb\d4\27\3d\ae\b2\c2\f9\79\37\9e\b1\67\56\16"
    "\63\ae\b2\c2\77\ca\eb\85\77\ca\eb\85\00\00\00\00\c5\67\56\16\2f\eb\d4\27\b1\79\37\9e\00\00\00\00")

  ;; The halves of a product of 128 bits, folded.
  (func $fold (param $a i64) (param $b i64) (result i64)
    (local $ll i64) (local $hl i64) (local $cross i64)
    (local.set $ll (i64.mul (i64.and (local.get $a) (i64.const 0xffffffff)) (i64.and (local.get $b) (i64.const 0xffffffff))))
    (local.set $hl (i64.mul (i64.shr_u (local.get $a) (i64.const 32)) (i64.and (local.get $b) (i64.const 0xffffffff))))
    (local.set $cross (i64.add
      (i64.add (i64.shr_u (local.get $ll) (i64.const 32)) (i64.and (local.get $hl) (i64.const 0xffffffff)))
      (i64.mul (i64.and (local.get $a) (i64.const 0xffffffff)) (i64.shr_u (local.get $b) (i64.const 32)))))
    (i64.xor
      (i64.add
        (i64.add (i64.shr_u (local.get $hl) (i64.const 32)) (i64.shr_u (local.get $cross) (i64.const 32)))
        (i64.mul (i64.shr_u (local.get $a) (i64.const 32)) (i64.shr_u (local.get $b) (i64.const 32))))
      (i64.or (i64.shl (local.get $cross) (i64.const 32)) (i64.and (local.get $ll) (i64.const 0xffffffff)))))

  ;; Takes so many stripes of 64 bytes into the sums, two at a time: where a loop begins again the sums are in memory.
  (func $stripes (param $p i32) (param $s i32) (param $n i32)
    (local $a0 v128) (local $a1 v128) (local $a2 v128) (local $a3 v128) (local $v v128) (local $k v128) (local $low v128)
    (local.set $low (v128.const i64x2 0xffffffff 0xffffffff))
    (local.set $a0 (v128.load offset=192 (i32.const 0)))
    (local.set $a1 (v128.load offset=208 (i32.const 0)))
    (local.set $a2 (v128.load offset=224 (i32.const 0)))
    (local.set $a3 (v128.load offset=240 (i32.const 0)))
    (loop $again (if (i32.ge_u (local.get $n) (i32.const 2)) (then
      (local.set $k (v128.xor (local.tee $v (v128.load offset=0 (local.get $p))) (v128.load offset=0 (local.get $s))))
      (local.set $a0 (i64x2.add
        (i64x2.add (local.get $a0) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=16 (local.get $p))) (v128.load offset=16 (local.get $s))))
      (local.set $a1 (i64x2.add
        (i64x2.add (local.get $a1) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=32 (local.get $p))) (v128.load offset=32 (local.get $s))))
      (local.set $a2 (i64x2.add
        (i64x2.add (local.get $a2) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=48 (local.get $p))) (v128.load offset=48 (local.get $s))))
      (local.set $a3 (i64x2.add
        (i64x2.add (local.get $a3) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=64 (local.get $p))) (v128.load offset=8 (local.get $s))))
      (local.set $a0 (i64x2.add
        (i64x2.add (local.get $a0) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=80 (local.get $p))) (v128.load offset=24 (local.get $s))))
      (local.set $a1 (i64x2.add
        (i64x2.add (local.get $a1) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=96 (local.get $p))) (v128.load offset=40 (local.get $s))))
      (local.set $a2 (i64x2.add
        (i64x2.add (local.get $a2) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=112 (local.get $p))) (v128.load offset=56 (local.get $s))))
      (local.set $a3 (i64x2.add
        (i64x2.add (local.get $a3) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $p (i32.add (local.get $p) (i32.const 128)))
      (local.set $s (i32.add (local.get $s) (i32.const 16)))
      (local.set $n (i32.sub (local.get $n) (i32.const 2)))
      (br $again))))
    (if (local.get $n) (then
      (local.set $k (v128.xor (local.tee $v (v128.load offset=0 (local.get $p))) (v128.load offset=0 (local.get $s))))
      (local.set $a0 (i64x2.add
        (i64x2.add (local.get $a0) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=16 (local.get $p))) (v128.load offset=16 (local.get $s))))
      (local.set $a1 (i64x2.add
        (i64x2.add (local.get $a1) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=32 (local.get $p))) (v128.load offset=32 (local.get $s))))
      (local.set $a2 (i64x2.add
        (i64x2.add (local.get $a2) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))
      (local.set $k (v128.xor (local.tee $v (v128.load offset=48 (local.get $p))) (v128.load offset=48 (local.get $s))))
      (local.set $a3 (i64x2.add
        (i64x2.add (local.get $a3) (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $v) (local.get $v)))
        (i64x2.mul (v128.and (local.get $k) (local.get $low)) (i64x2.shr_u (local.get $k) (i32.const 32)))))))
    (v128.store offset=192 (i32.const 0) (local.get $a0))
    (v128.store offset=208 (i32.const 0) (local.get $a1))
    (v128.store offset=224 (i32.const 0) (local.get $a2))
    (v128.store offset=240 (i32.const 0) (local.get $a3)))

  (func $scramble (local $a v128)
    (local.set $a (v128.load offset=192 (i32.const 0)))
    (v128.store offset=192 (i32.const 0) (i64x2.mul
      (v128.xor (v128.xor (local.get $a) (i64x2.shr_u (local.get $a) (i32.const 47))) (v128.load offset=128 (i32.const 0)))
      (v128.const i64x2 0x9e3779b1 0x9e3779b1)))
    (local.set $a (v128.load offset=208 (i32.const 0)))
    (v128.store offset=208 (i32.const 0) (i64x2.mul
      (v128.xor (v128.xor (local.get $a) (i64x2.shr_u (local.get $a) (i32.const 47))) (v128.load offset=144 (i32.const 0)))
      (v128.const i64x2 0x9e3779b1 0x9e3779b1)))
    (local.set $a (v128.load offset=224 (i32.const 0)))
    (v128.store offset=224 (i32.const 0) (i64x2.mul
      (v128.xor (v128.xor (local.get $a) (i64x2.shr_u (local.get $a) (i32.const 47))) (v128.load offset=160 (i32.const 0)))
      (v128.const i64x2 0x9e3779b1 0x9e3779b1)))
    (local.set $a (v128.load offset=240 (i32.const 0)))
    (v128.store offset=240 (i32.const 0) (i64x2.mul
      (v128.xor (v128.xor (local.get $a) (i64x2.shr_u (local.get $a) (i32.const 47))) (v128.load offset=176 (i32.const 0)))
      (v128.const i64x2 0x9e3779b1 0x9e3779b1))))

  ;; The XXH3 of $n bytes, a multiple of 1,024.
  (func $xxh3 (param $p i32) (param $n i32) (result i64)
    (local $end i32) (local $h i64)
    (memory.copy (i32.const 192) (i32.const 256) (i32.const 64))
    (local.set $end (i32.add (local.get $p) (local.get $n)))
    (loop $again
      (if (i32.gt_u (i32.sub (local.get $end) (local.get $p)) (i32.const 1024)) (then
        (call $stripes (local.get $p) (i32.const 0) (i32.const 16))
        (call $scramble)
        (local.set $p (i32.add (local.get $p) (i32.const 1024)))
        (br $again))))
    (call $stripes (local.get $p) (i32.const 0) (i32.const 15))
    (call $stripes (i32.sub (local.get $end) (i32.const 64)) (i32.const 121) (i32.const 1))
    (local.set $h (i64.mul (i64.extend_i32_u (local.get $n)) (i64.const 0x9e3779b185ebca87)))
    (local.set $h (i64.add (local.get $h) (call $fold
      (i64.xor (i64.load offset=192 (i32.const 0)) (i64.load offset=11 (i32.const 0)))
      (i64.xor (i64.load offset=200 (i32.const 0)) (i64.load offset=19 (i32.const 0))))))
    (local.set $h (i64.add (local.get $h) (call $fold
      (i64.xor (i64.load offset=208 (i32.const 0)) (i64.load offset=27 (i32.const 0)))
      (i64.xor (i64.load offset=216 (i32.const 0)) (i64.load offset=35 (i32.const 0))))))
    (local.set $h (i64.add (local.get $h) (call $fold
      (i64.xor (i64.load offset=224 (i32.const 0)) (i64.load offset=43 (i32.const 0)))
      (i64.xor (i64.load offset=232 (i32.const 0)) (i64.load offset=51 (i32.const 0))))))
    (local.set $h (i64.add (local.get $h) (call $fold
      (i64.xor (i64.load offset=240 (i32.const 0)) (i64.load offset=59 (i32.const 0)))
      (i64.xor (i64.load offset=248 (i32.const 0)) (i64.load offset=67 (i32.const 0))))))
    (local.set $h (i64.mul (i64.xor (local.get $h) (i64.shr_u (local.get $h) (i64.const 37))) (i64.const 0x165667919e3779f9)))
    (i64.xor (local.get $h) (i64.shr_u (local.get $h) (i64.const 32))))

  (func (export "run") (local $stream i64) (local $chunk i32) (local $have i32) (local $n i32) (local $count i64) (local $wrong i64)
    (drop (call $receive (i64.const -1)))
    (drop (call $item_read (i32.const 512) (i32.const 136) (i32.const 0)))
    (local.set $chunk (i32.load (i32.const 512)))
    (drop (call $receive (i64.const -1)))
    (local.set $stream (call $accept))
    (loop $again
      (local.set $n (call $read (local.get $stream) (i32.add (i32.const 1024) (local.get $have)) (i32.sub (local.get $chunk) (local.get $have))))
      (if (i32.lt_s (local.get $n) (i32.const 0)) (then unreachable))
      (if (local.get $n) (then
        (local.set $have (i32.add (local.get $have) (local.get $n)))
        (if (i32.eq (local.get $have) (local.get $chunk)) (then
          (local.set $have (i32.const 0))
          (if (i64.ne (call $xxh3 (i32.const 1024) (local.get $chunk))
                      (i64.load offset=520 (i32.shl (i32.and (i32.wrap_i64 (local.get $count)) (i32.const 15)) (i32.const 3)))) (then
            (local.set $wrong (i64.add (local.get $wrong) (i64.const 1)))))
          (local.set $count (i64.add (local.get $count) (i64.const 1)))))
        (br $again))))
    (i64.store (i32.const 512) (local.get $count))
    (i64.store (i32.const 520) (local.get $wrong))
    (drop (call $send (call $parent) (i64.const 0) (i32.const 512) (i32.const 16)))))
