"""Assembly text in both directions.

Reading order:

- `assembler` (text to bytes: keystone first, our encoder second), `syntax` (reads Intel syntax);
- `matching` (variants that a statement can mean), `formatting` (writes instructions);
- `keystone_process` and `keystone_child` (keystone behind a process boundary).
"""
