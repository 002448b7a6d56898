"""Latency of every pair of operands.

Reading order: `infer` (asks for chains), `evidence` (the latency that follows from a chain), `conclusions` (numbers and
bounds).
"""
