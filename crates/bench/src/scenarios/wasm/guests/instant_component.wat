;; A component without memory. The `run` of rusm:runtime/actor takes arguments, for which a component must have a memory,
;; so this one is a command of WASI, which imports nothing.
(component
  (core module $core (func (export "run") (result i32) i32.const 0))
  (core instance $instance (instantiate $core))
  (func $run (result (result)) (canon lift (core func $instance "run")))
  (instance $command (export "run" (func $run)))
  (export "wasi:cli/run@0.2.6" (instance $command)))
