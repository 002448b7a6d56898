"""Conclusions from measurements: pure procedures that never see a backend, and never import the simulator.

Reading order:

- `experiment` (a procedure asks for measurements and is sent them), `context` (what it knows of the machine);
- `characterizer` (what a campaign drives), `calibration` (what the links of chains take);
- `variant` (everything about one variant, in order), `builder` (collects it), `forms` (plain, same register, indexed);
- `throughput`, `port_usage` with `ports`, `latency`: one conclusion each; `attributes`: the smaller ones;
- `memory` (what memory does to time);
- `version` (of inference, stored with each conclusion).
"""
