"""Functions of several blocks.

Reading order:

- `flow`: the control-flow graph of a function, its loops, and the ways through them;
- `loops`: what a loop of several blocks takes.
"""
