"""Measuring code that a user gives.

Reading order:

- `measure` (a request in, a result out), `code` (what cannot be measured);
- where code comes from: `sources`, `text` (both syntaxes, directives), `att` (AT&T to Intel), `gnu_as` (the last
  resort), `objects` (ELF files);
- `counters` (events that a user writes down);
- parameters: `template` (sources with parameters), `sweep` (all values), `journal` (a stopped sweep goes on), `plot`;
- blocks: `blocks` (basic blocks that read and write anywhere), `programs` (taken apart into blocks);
- `report` (text, JSON, CSV);
- for `uopscope analyze`: `listing` (text as compilers write it), `debug_lines` (lines of the source), `analyzed` (code
  and machines), `beside` (predicted beside measured), `many_blocks` (thousands of them, in several processes).
"""
