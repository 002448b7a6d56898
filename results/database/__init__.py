"""instructions.xml with measurements.

Reading order: `reader` and `writer`, `xml` (conclusions as elements), `memory_section` (what memory does to time),
`cycles` (exact or an upper bound?), `merge` (campaigns to one database), `naming` (other tools' names), `rules` (what
readers need), `diff` and `agreement` (two databases), `published`, `reasons` and `compare` (what others published),
`query` (the query language).
"""
