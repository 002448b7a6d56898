"""Machine models: what a simulated core does with each variant, and how wide and deep it is.

Reading order: `machine` (a model and its files in `simulator/models/`), `graph` (µops of a variant), `structure`
(graphs out of scheduling models), `random_machine` (machines drawn from a seed), `truth` (what inference should find),
`convert_llvm` (makes the shipped tables).
"""
