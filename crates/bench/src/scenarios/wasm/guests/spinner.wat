;; A process that never gives way.
(module (func (export "run") (loop $again (br $again))))
