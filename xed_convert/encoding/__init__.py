"""From variants and operands to bytes, and back.

Reading order: `form` (a variant's encoding as a compact string), `encoder`, `spaces` (one class for each encoding
space), `address` (ModRM, SIB, displacement), `registers`; back: `decoder`, `raw` (prefixes and fields), `candidates`
(the forms that an opcode can stand for).
"""
