;; A process that never gives way: the node has to interrupt it.
(module (func (export "run") (loop $again (br $again))))
