"""Port usage by counters: Algorithm 1 of Abel and Reineke (ASPLOS 2019, section 5.1.2), made adaptive.

Reading order:

- `infer` runs `stages` over a `probe` (their state); `questions` chooses the set to block next, out of those that are
  `conceivable`; `ask` blocks it and counts, `load` judges the counts;
- `usages` (port usages that fit the measurements), found by a `solver`; `alone` (measurements with no port blocked);
- `blocking_instructions`, and `blocking`, which finds them with `shared_counters`;
- `scheduling` (how the core chooses among free ports);
- `equalize` (closer bounds for long microcode);
- `by_time` (port usage without counters);
- `fitted` (what is fitted to times of mixes).

Port arithmetic is in `results.ports`.
"""
