"""Measuring code of a user.

Reading order:

- `measure` (a request in, a result out), `code` (limits of the code);
- `reading`: sources of code: text of both syntaxes, bytes, files, programs;
- `counters` (configuration files of events);
- parameters: `template` (sources with parameters), `sweep` (all values), `plot`;
- `blocks`: basic blocks that read and write anywhere, by `block_shapes` (decoded) and `block_rounds` (what times say);
  `block_table` (rows of all blocks);
- `journal` (resumes a stopped sweep or list of blocks);
- `report` (text, JSON, CSV);
- `analyzing`: for `uopscope analyze`.
"""
