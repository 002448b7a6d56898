"""Everything that touches a machine or a person.

Reading order:

- `backend` (the interface), `backends` (its implementations), `host` (the CPU at hand), `uarch` (microarchitectures);
- `measuring` (from requests to values), `campaigns` (many variants on one machine), `nightly`;
- `memory` (store forwarding, loads, stores, caches), `interrupts` (where interrupts arrive in a loop),
  `bypass` (delays between classes of instructions), `port_sets` (sets of ports by time alone);
- `own_code` (code of a user), `refusals` (code that must not run in ring 0), `explain` (the evidence of a number);
- `doctor` and `selftest` (checks of this machine), `verification` (inference against the truth of simulated machines);
- `cli` (the commands), `python` (results of the functions of `uopscope.py`).
"""
