"""Port usages that explain what was measured.

Reading order:

- `bounds`: how many µops were counted on sets of ports, at most;
- `hypotheses`: usages of known sets, and the set to block next;
- `timing`: what the time of an instruction alone says of a usage;
- `every_usage`: usages of any sets, known or not, with `integer_program`.
"""
