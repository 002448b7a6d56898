"""Measurements and conclusions: their types, their store, their exports.

Reading order:

- `model` (types of measurements and conclusions), `ports` (port arithmetic), `findings` (derivations and failures as
  data), `whole_cycles` (latencies as integers), `sentences` (findings in words), `text` and `table` (results for
  people);
- `campaign` (samples and conclusions in SQLite), `database` (instructions.xml), `exports` (other formats, with `rows`),
  `site` (pages), `html` (templates), `memory` (store forwarding, load and store times, caches),
  `bypass` (delays between classes of instructions);
- `machine` (a machine model, made from an instructions.xml);
- `shipped` (the included database), `ship` (makes it), `processes` (how many share some work), `version`.
"""
