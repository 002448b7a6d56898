"""Microbenchmarks of memory.

Reading order: `accesses` (stores and loads by size), `forwarding` (store-to-load forwarding), `times` (latency and
throughput of loads and stores), `chase` (pointer chasing), `sequences` (accesses to lines of one set, in a small
language).
"""
