"""Measurements of a machine's memory: store forwarding, load and store times, caches.

Reading order: `model` (the types), `documents` (JSON), `text` (for people), `heat_map` (SVG). The part of an
instructions.xml is written by `results.database.memory_section`.
"""
