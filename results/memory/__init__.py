"""Measurements of a machine's memory: store forwarding, load and store times, caches.

Reading order: `model` (the types), `documents` (JSON), `section` (a part of instructions.xml), `text` (for people),
`heat_map` (SVG).
"""
