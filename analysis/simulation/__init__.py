"""Code on the simulated core: how many cycles an iteration takes, and what happened to each instruction.

Reading order:

- `results`: what comes out: `Simulated`, and per instruction `InstructionTimes` and `InstanceTimes`;
- `program`: a block as steps of the core, with its loads linked to the stores that they read from;
- `waits`: which instructions waited, for what and for which other ones, from notes about each instance;
- `run`: simulates until it repeats (`Simulation.run`), or with these notes (`Simulation.explain`);
- `study`: one block with all of this, worked out when it is asked for (`Study`);
- `changes`: the time with one change to core or code (`faster_ways`).
"""
