"""Measuring code that a user gives.

Reading order: `measure` (a request in, a result out), `code` (what cannot be measured), `sources` (where code comes
from), `text` (both syntaxes, directives), `att` (AT&T to Intel), `gnu_as` (the last resort), `objects` (ELF files),
`counters` (events that a user writes down), `template` (sources with parameters), `sweep` (all values of parameters),
`journal` (a sweep that was stopped goes on), `plot`, `blocks` (basic blocks that read and write anywhere), `programs`
(taken apart into blocks), `report` (text, JSON, CSV), `listing` (text as compilers write it), `debug_lines` (lines of
the source), `analyzed` (code and machines for `uopscope analyze`), `beside` (predicted beside measured), `many_blocks`
(thousands of them, in several processes).
"""
