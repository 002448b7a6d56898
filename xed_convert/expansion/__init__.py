"""From records to instruction variants.

Reading order: `convert` (the whole conversion), `facts` (what a pattern says), `attributes` (one record, several
variants), `operands` and `flags` (what a variant reads and writes), `layout` and `patterns` (its encoding), `iform` and
`asm_syntax` (its names), `pending` (variants of all records, merged), `siblings` (names for variants that look alike),
`apx` (what APX adds), `exclusions` (what is left out), `ship` (make the shipped catalogue).
"""
