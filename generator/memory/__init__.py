"""Code that shows what memory does to time.

Reading order: `accesses` (stores and loads by size), `forwarding` (a load of what a store has just written), `times`
(latency and throughput of loads and stores), `chase` (pointers through as many bytes as caches hold),
`sequences` (accesses to lines of one set, in a small language).
"""
