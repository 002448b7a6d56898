"""What memory does to time.

Reading order: `forwarding` (a load of what a store has just written), `times` (latency and throughput of loads and
stores), `levels` (caches, by the time of a pointer that is followed through more and more bytes), `policies`
(which line of a full set goes) and `replacement` (which of them a cache has), `asked` (which accesses of a
sequence hit).
"""
