"""Predictions beside measurements.

Reading order: `error` (blocks of a file), `real_blocks`, `real_mixes` and `interrupts` (on the CPU at hand).
"""
