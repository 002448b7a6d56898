"""What the core knows of one instruction besides its µops.

Reading order: `locations` (registers, flags and memory by one name each), `domains` (of vectors), `opcode` (where it
is, and the prefixes).
"""
