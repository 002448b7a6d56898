"""Everything that touches a machine or a person.

Rooms: `backends` (what runs microbenchmarks), `measuring` (from requests to values), `campaigns` (many variants on one
machine), `nightly`, `uarch` (microarchitectures), `host` (the CPU at hand), `verification` (inference against the truth
of simulated machines), `cli` (the commands).
"""
