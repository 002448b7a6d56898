"""Parts that `uopscope analyze` and `uopscope.analyze` share.

Reading order:

- `analyzed`: machines, and code with its source lines;
- `beside`: predictions beside measurements;
- `many_blocks`: thousands of blocks, in several processes.
"""
