"""Runs inference on simulated machines and compares what it concludes with what is true of them.

Reading order: `run` (characterize variants of a machine), `report` (the figures, and what was not found again),
`judge` (one variant), `port_names` (ports that share a counter have no names of their own), `indistinguishable` (does
another machine give the same in every measurement?), `tellable` (can the counters tell a usage at all?), `by_time`
(ports that were inferred without counters), `siblings` (random machines of one seed), `synthetic` (what a model says,
stored as a campaign without measuring).
`benchmarks/accuracy/truth.py` and tests use it.
"""
