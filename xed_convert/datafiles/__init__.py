"""Reading XED's datafiles, without interpretation.

Reading order:

- `folder` (everything of a folder, in one object), `layers` (which files, in which order), `source` (lines, places);
- `records` (instructions), `pattern` and `nonterminals` (the language of patterns), `operand_spec` (their operands);
- `tables` (widths, types, fields), `corrections` (known faults), `fetch` (getting a release).
"""
