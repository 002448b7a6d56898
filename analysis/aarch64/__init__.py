"""Kernels for AArch64, by the models of an installed LLVM: throughput, critical path, loop-carried dependencies.

Reading order:

- `llvm`: runs llvm-mc and llvm-mca, and reads what they say;
- `operands`: what an instruction reads and writes, by `operands.tsv`;
- `kernel`: one call from text to a prediction that shows itself (`analyze`).
"""
