"""Dependency chains, for latency.

Reading order: `plan` (every pair of operands of a variant), `links` (the chain instructions), `chain` (puts chains
together), `setup` (initial values of a chain), `calibration` (what the links themselves take), `value_classes` (the
same chain with other operand values), `domains` (with links that work on other kinds of numbers), `producers`
(with other producers of what is only read), `carried` (through producers of what every chain needs).
"""
