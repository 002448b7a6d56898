"""Measuring code that a user gives.

Reading order:

- `measure` (a request in, a result out), `code` (what cannot be measured);
- `reading`: where code comes from: text of both syntaxes, bytes, files, programs;
- `counters` (events that a user writes down);
- parameters: `template` (sources with parameters), `sweep` (all values), `journal` (a stopped sweep goes on), `plot`;
- `blocks`: basic blocks that read and write anywhere;
- `report` (text, JSON, CSV);
- `analyzing`: for `uopscope analyze`.
"""
