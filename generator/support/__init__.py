"""Code around an instruction.

Reading order:

- `initial`: register contents;
- `prologue`: code before and after each instance;
- `breakers`: instructions that cut a dependency;
- `producers`: different ways to write a register; `carriers`: those that read it as well.
"""
