"""instructions.xml with measurements.

Reading order:

- `reader` and `writer`, `xml` (conclusions as elements), `memory_section` (measurements of memory), `cycles` (exact
  values and upper bounds);
- `merge` (campaigns to one database), `entries` (of both kinds of files);
- `naming` (other tools' names), `rules` (requirements of readers);
- `diff`, `agreement` and `port_names` (two databases);
- `comparison` (measurements published by others);
- `query` (the query language).
"""
