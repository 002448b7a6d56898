"""Port usage by counters: Algorithm 1 of Abel and Reineke (ASPLOS 2019, section 5.1.2), made adaptive.

Reading order:

- `infer` runs `stages` over a `probe` (their state); `ask` blocks a set of ports and counts;
- `hypotheses` (usages of known sets), `every_usage` (usages of any sets, with `integer_program`);
- `isolation` (what an instruction does alone), `layout` (counters), `load_balance` and `timing` (loads and time alone);
- `blocking_instructions`, and `blocking`, which finds them with `shared_counters`;
- `accuracy` (how far counters are off), `scheduling` (how the core chooses among free ports);
- `equalize` (closer bounds for long microcode);
- `by_time` does without counters.

Port arithmetic is in `results.ports`.
"""
