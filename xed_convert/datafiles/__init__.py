"""Reading XED's datafiles: what each kind of file says, without interpretation.

Reading order: `folder` (everything of a folder, in one object), `layers` (which files, in which order), `source` (lines
with their places), `records` (instructions), `pattern` and `nonterminals` (the language of patterns), `operand_spec`
(operands as written), `tables` (widths, types, fields), `corrections` (known faults), `fetch` (getting a release).
"""
