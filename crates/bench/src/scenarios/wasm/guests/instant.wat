;; An instance that ends with its first instruction.
(module (func (export "run")))
