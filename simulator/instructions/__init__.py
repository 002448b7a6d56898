"""What the core knows of one instruction besides its µops.

Reading order: `locations` (registers, flags and memory by one name each), `stack_pointer` (who reads it as a value),
`domains` (of vectors), `transfers` (what instructions between register files share), `opcode` (where it is, and the
prefixes).
"""
