"""Measures how right inference is, how right predictions are, and how fast the parts are: `benchmarks/README.md`.

Reading order:

- inference beside the truth of simulated machines: `truth` (machines that are known by name), `random_machines`,
  `measured_machine` (out of a file), `unit_counters` (counters by unit), `ports_by_time` (no counters);
- inference beside itself: `unchanged` (before and after a change), `sensitivity` (each constant at half and at twice
  its value, by `constants`); `verdicts`, `verdicts_apart`, `verdicts_attributes` judge what is concluded, and `kept`
  keeps what was simulated;
- predictions beside measurements: `predictions` (blocks of a file), `real_blocks`, `real_mixes`, `interrupts` (on the
  CPU at hand);
- times on the CPU at hand: `clock`, `blocks`, `one_measure`, `memory`, `overhead`;
- speed and memory of the parts: `simulation`, `convert`, `database`, `encoding`, `fuzz_decoder`, `large_text`.
"""
