"""An out-of-order core driven by a machine model: the machines whose truth is known.

Reading order: `machines` (what a core does with each variant), `memory` (caches and
store buffers), `core` (executes bytes), `judging` (conclusions against
the truth), `errors`.
"""
