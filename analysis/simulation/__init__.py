"""Code on the simulated core: how many cycles an iteration takes, and what happened to each instruction.

Reading order:

- `results`: what comes out: `Simulated`, and with it per instruction `LineTimes`, `Instance`;
- `program`: a block as steps of the core, with its loads linked to the stores that they read from;
- `run`: until it repeats (`Simulation.run`), and with notes about each instance (`Simulation.explain`);
- `waits`: who waited for what and for whom, out of these notes.
"""
