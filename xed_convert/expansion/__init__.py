"""From records to instruction variants.

Reading order:

- `convert` (the whole conversion), `facts` (what a pattern says), `attributes` (one record, several variants);
- `operands` and `flags` (what a variant reads and writes), `layout` and `patterns` (its encoding);
- `iform` and `asm_syntax` (its names), `siblings` (names for variants that look alike);
- `pending` (variants of all records, merged), `apx` (what APX adds), `exclusions` (what is left out);
- `ship` (makes the shipped catalogue).
"""
