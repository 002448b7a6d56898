"""An out-of-order core driven by a machine model: a machine whose truth is known.

Reading order: `machines` (machine models), `memory` (caches and store buffers), `instructions` (operands and bytes of
one), `core` (executes bytes), `judging` (compares conclusions with the truth), `errors`.
"""
