"""Measures how right inference is, how right predictions are, and how fast the parts are: `benchmarks/README.md`.

Reading order: `accuracy` (inference beside the truth), `changes` (inference before and after a change), `predictions`
(beside measurements), `speed` (time and memory of the parts).
"""
