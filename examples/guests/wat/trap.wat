;; A process that ends by a trap.
(module (func (export "run") unreachable))
