"""From records to instruction variants.

Reading order:

- `convert` (the whole conversion), `facts` (facts from a pattern), `attributes` (one record, several variants);
- `operands` and `flags` (reads and writes of a variant), `layout` and `patterns` (its encoding);
- `iform` and `asm_syntax` (its names), `siblings` (names for variants that look alike);
- `pending` (variants of all records, merged), `apx` (additions of APX), `exclusions` (omitted instructions);
- `ship` (makes the shipped catalogue).
"""
