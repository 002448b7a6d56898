"""Conclusions against the truth of a simulated machine, for tests and figures; inference sees nothing of it.

Reading order: `latency` (does a result agree with the machine?), `slack` (which latencies another machine could have,
though nothing tells it from this one), `ports` (machines that differ in the ports of one variant).
"""
