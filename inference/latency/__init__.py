"""Latency of every pair of operands.

Reading order: `infer` (asks for chains), `evidence` (what a chain says), `conclusions` (numbers and bounds).
"""
