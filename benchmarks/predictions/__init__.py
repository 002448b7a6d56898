"""Predictions beside measurements.

Reading order: `error` (blocks of a file), `real_blocks`, `real_mixes`, `bursts` and `interrupts` (on the CPU at
hand).
"""
