"""Operands of an instance: which registers, addresses and values it gets, and what it reads and writes.

Reading order: `registers` (names and storage), `reserved` (what the harness keeps), `allocation` (registers, addresses,
immediates), `effects` (what an instance reads and writes), `places` (sources and destinations of latencies), `values`
(operand values that matter), `value_classes` (those that may take other times).
"""
