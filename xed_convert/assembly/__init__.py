"""Assembly text in both directions.

Reading order: `text` (the public functions), `syntax` (reads Intel syntax), `matching` (variants that a statement can
mean), `formatting` (writes instructions), `assembler` (keystone first, our encoder second), `keystone_process` and
`keystone_child` (keystone behind a process boundary).
"""
