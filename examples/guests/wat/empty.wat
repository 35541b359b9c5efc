;; The smallest process: it ends with its first instruction, so that only the cost of the spawn is measured.
(module (func (export "run")))
