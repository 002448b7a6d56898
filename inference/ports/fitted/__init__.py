"""What is fitted to times of mixes.

- `contention`: how much longer mixes take than their known ports allow; `grouped`: cores that issue instructions whole;
  `schedulers`: cores that choose a pipe for each µop when they issue it;
- `fit`: loads and classes of instructions whose ports are not known.
"""
