"""What `uopscope analyze` and `uopscope.analyze` share.

Reading order:

- `analyzed`: machines, and code with the lines that it comes from;
- `beside`: predicted beside measured;
- `many_blocks`: thousands of blocks, in several processes.
"""
