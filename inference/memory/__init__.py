"""Memory: store forwarding, load and store times, caches.

Reading order: `forwarding` (store-to-load forwarding), `times` (latency and throughput of loads and stores), `levels`
(sizes and latencies of caches, by pointer chasing), `policies` (replacement policies) and `replacement` (the policy of
a cache), `asked` (which accesses of a sequence hit).
"""
