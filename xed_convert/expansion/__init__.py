"""From records to instruction variants.

Reading order: `convert` (the whole conversion), `attributes` (one record, several variants), `facts` (what a pattern
says), `operands` and `flags` (what a variant reads and writes), `layout` and `patterns` (its encoding), `asm_syntax`
and `iform` (its names), `apx` (what APX adds), `exclusions` (what is left out), `ship` (make the shipped catalogue).
"""
