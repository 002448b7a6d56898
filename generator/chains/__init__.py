"""Dependency chains, for latency.

Reading order: `plan` (every pair of operands of a variant), `links` (the chain instructions), `chain` (puts chains
together), `setup` (initial values of a chain), `calibration` (chains of links alone), `value_classes` (the same chain
with other operand values), `domains` (with links of the integer or floating-point domain), `producers` (with other
producers of operands that are only read), `carried` (through producers of operands that every chain needs).
"""
