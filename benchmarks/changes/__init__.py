"""Conclusions of inference before and after a change.

Reading order:

- `unchanged` (of the code), `sensitivity` (each constant at half and at twice its value, imported by `constants`);
- `verdicts`, `verdicts_apart`, `verdicts_attributes` judge conclusions; `kept` has measurements that were simulated.
"""
