"""instructions.xml with measurements.

Reading order: `reader` and `writer`, `xml` (conclusions as elements), `merge` (campaigns to one database), `rules`
(what readers need), `diff` and `agreement` (two databases), `compare` (what others published), `query` (the query
language).
"""
