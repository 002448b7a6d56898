"""Conclusions from measurements: pure procedures that never see a backend, and never import the simulator.

Reading order:

- `experiment` (how a procedure asks for measurements), `context` (known facts about the machine);
- `characterizer` (entry point for campaigns), `calibration` (times of chain links), `tolerances` (of all times);
- `variant` (all steps for one variant), `builder` (collects conclusions), `forms` (plain, same register, indexed);
- `throughput`, `port_usage` with `ports`, `latency`: one conclusion each; `attributes`: the smaller ones;
- `memory` (store forwarding, load and store times, caches), `bypass` (delays between classes of instructions);
- `version` (of inference, stored with each conclusion).
"""
