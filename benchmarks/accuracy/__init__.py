"""Conclusions beside the truth: of inference about simulated machines, and of the contention probe.

Reading order: `truth` (machines that are known by name), `random_machines`, `measured_machine` (out of a file),
`unit_counters` (counters by execution unit), `ports_by_time` (no counters), `contention_probe` (what is
disturbed on the CPU at hand).
"""
