"""From variants and operands to bytes, and back.

Reading order: `form` (a variant's encoding as a compact string), `encoder` (operands to fields), `fields`, `spaces`
(fields to bytes, one class for each encoding space), `address` (ModRM, SIB, displacement), `registers`. Back:
`decoder`, `raw` (prefixes and fields), `candidates` (the forms that an opcode can stand for).
"""
