;; A process that never yields: the node must interrupt it.
(module (func (export "run") (loop $again (br $again))))
