"""Everything that touches a machine or a person.

Reading order:

- `backend` (what a backend is), `backends` (those that there are), `host` (the CPU at hand), `uarch`
  (microarchitectures);
- `measuring` (from requests to values), `campaigns` (many variants on one machine), `nightly`;
- `memory` (what memory does to time), `interrupts` (where interrupts catch a loop);
- `own_code` (code that a user gives), `refusals` (what must not run in ring 0), `explain` (why a number is what it is);
- `doctor` and `selftest` (what works here), `verification` (inference against the truth of simulated machines);
- `cli` (the commands), `python` (what the functions of `uopscope.py` return).
"""
