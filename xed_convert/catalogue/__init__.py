"""The stored catalogue of instruction variants.

Reading order:

- `catalogue` (loading, finding variants), `store` (the shipped file), `index` (what variants are looked up by);
- `xml` (instructions.xml), `schema` (its XSD);
- `diff` (what a new release brings), `describe` (a variant in words).
"""
