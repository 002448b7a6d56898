"""Port usages that fit the measurements.

Reading order:

- `bounds`: upper bounds on the µops confined to a set of ports;
- `hypotheses`: usages of known sets, and the set to block next;
- `timing`: usages that agree with the time in isolation;
- `every_usage`: usages of any sets, known or not, with `integer_program`.
"""
