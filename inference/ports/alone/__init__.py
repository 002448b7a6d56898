"""Measurements of an instruction alone, with no port blocked.

Reading order:

- `layout`: the counters, and which ports they can tell apart;
- `isolation`: bounds on the port usage from counters and time;
- `load_balance`: hints from the loads of ports, since cores distribute µops evenly;
- `accuracy`: the errors of counters and clock.
"""
