"""Code on the simulated core: how many cycles an iteration takes, and what happened to each instruction.

Reading order:

- `results`: what comes out: `Simulated`, and with it per instruction `LineTimes`, `InstanceTimes`;
- `program`: a block as steps of the core, with its loads linked to the stores that they read from;
- `waits`: who waited for what and for whom, out of notes about each instance;
- `run`: until it repeats (`Simulation.run`), and with these notes (`Simulation.explain`);
- `study`: one block with all of this, worked out when it is asked for (`Study`);
- `changes`: what the code would take if one thing were otherwise (`faster_ways`).
"""
