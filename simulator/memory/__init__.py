"""The memory of a simulated machine.

Reading order: `parameters` (sizes, latencies, forwarding), `policies` (cache replacement), `caches` (contents of
caches), `buffer` (pending stores).
"""
