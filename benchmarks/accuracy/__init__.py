"""Conclusions of inference beside the truth about simulated machines.

Reading order: `truth` (machines that are known by name), `random_machines`, `measured_machine` (out of a file),
`unit_counters` (counters by execution unit), `ports_by_time` (no counters).
"""
