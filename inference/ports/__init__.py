"""Port usage by counters: Algorithm 1 of Abel and Reineke (ASPLOS 2019, section 5.1.2), made adaptive.

Reading order: `infer` runs `stages` over a `probe` (their state), `ask` (block a set of ports and count), `hypotheses`
(usages of known sets), `every_usage` (usages of any sets, with `integer_program`), `isolation` (what an instruction
does alone), `layout` (counters), `blocking_instructions` and `blocking` (how they are found), `shared_counters`,
`scheduling` (what the core does with µops that have a choice), `equalize`, `load_balance`, `timing`. Port arithmetic
is in `results.ports`. `by_time` does without counters.
"""
