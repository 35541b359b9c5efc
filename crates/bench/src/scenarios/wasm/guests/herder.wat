;; Publishes its argument to the topic `topic-herd`, and ends.
(module
    (import "rusm" "arg_read" (func $arg_read (param i32 i32 i32) (result i32)))
    (import "rusm" "topic_publish" (func $publish (param i32 i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "topic-herd")
    (func (export "run")
        (drop (call $publish
            (i32.const 0) (i32.const 10)
            (i32.const 0) (i32.const -1)
            (i32.const 64) (call $arg_read (i32.const 0) (i32.const 64) (i32.const 64))))))
