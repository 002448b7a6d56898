"""From variants and operands to bytes, and back.

Reading order:

- `form` (a variant's encoding as a compact string), `registers`, `address` (ModRM, SIB, displacement);
- to bytes: `encoder` (operands to `fields`), `spaces` (fields to bytes, one class for each encoding space);
- back: `decoder`, `raw` (prefixes and fields), `candidates` (the forms that an opcode can stand for);
- `nops` (padding).
"""
