;; A process whose stack overflows.
(module (func $run (export "run") (call $run)))
