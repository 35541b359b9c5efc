;; A component that lists its folder again and again, and keeps the lists. It traps at the first error.
(component
  (import "wasi:filesystem/types@0.2.0" (instance $fs
    (export "descriptor" (type $descriptor (sub resource)))
    (export "directory-entry-stream" (type $list (sub resource)))
    (type $code' (enum "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist"
      "file-too-large" "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io" "is-directory" "loop"
      "too-many-links" "message-size" "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory"
      "insufficient-space" "not-directory" "not-empty" "not-recoverable" "unsupported" "no-tty" "no-such-device"
      "overflow" "not-permitted" "pipe" "read-only" "invalid-seek" "text-file-busy" "cross-device"))
    (export "error-code" (type $code (eq $code')))
    (export "[method]descriptor.read-directory"
      (func (param "self" (borrow $descriptor)) (result (result (own $list) (error $code)))))))
  (alias export $fs "descriptor" (type $descriptor))
  (alias export $fs "directory-entry-stream" (type $list))
  (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
    (alias outer 1 $descriptor (type $d))
    (export "descriptor" (type $descriptor (eq $d)))
    (export "get-directories" (func (result (list (tuple (own $descriptor) string)))))))
  (core module $memory
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 8192))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.set $next (i32.add (global.get $next) (i32.const 1024)))
      (global.get $next)))
  (core instance $memory (instantiate $memory))
  (core func $folders (canon lower (func $preopens "get-directories")
    (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core func $list (canon lower (func $fs "[method]descriptor.read-directory") (memory (core memory $memory "memory"))))
  (core func $drop (canon resource.drop $list))
  (core module $program
    (import "memory" "memory" (memory 1))
    (import "host" "folders" (func $folders (param i32)))
    (import "host" "list" (func $list (param i32 i32)))
    (import "host" "drop" (func $drop (param i32)))
    (func (export "run") (result i32) (local $i i32) (local $folder i32)
      (call $folders (i32.const 64))
      (local.set $folder (i32.load (i32.load (i32.const 64))))
      (loop $again
        (call $list (local.get $folder) (i32.const 80))
        (if (i32.load8_u (i32.const 80)) (then unreachable))
        DROP
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 500))))
      (i32.const 0)))
  (core instance $program (instantiate $program
    (with "memory" (instance $memory))
    (with "host" (instance
      (export "folders" (func $folders)) (export "list" (func $list)) (export "drop" (func $drop))))))
  (func $run (result (result)) (canon lift (core func $program "run")))
  (instance $exports (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $exports)))
