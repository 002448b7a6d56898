"""Measurements and conclusions: their types, their store, their exports.

Reading order:

- `model` (what is measured and concluded), `ports` (arithmetic of port sets), `findings` (why a number is so, as
  data), `whole_cycles` (what a latency says), `sentences` (findings in words), `text` and `table` (results for people);
- `campaign` (samples and conclusions in SQLite), `database` (instructions.xml), `exports` (other forms, by way of
  `rows`), `site` (pages), `html` (their templates), `memory` (what memory does to time);
- `machine` (a model of a machine, made from an instructions.xml);
- `shipped` (the database that comes along), `ship` (makes it), `version`.
"""
