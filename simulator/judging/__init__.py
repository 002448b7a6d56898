"""Compares conclusions with the truth of a simulated machine, for tests and figures; inference never sees it.

Reading order: `latency` (agreement of a result with the machine), `slack` (latencies of indistinguishable machines),
`ports` (machines that differ in the ports of one variant).
"""
