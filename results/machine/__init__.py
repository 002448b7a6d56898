"""The machine model: what a core does with each instruction variant, and how wide and deep it is.

The simulator executes it, analysis reads it. Reading order:

- `graph`: the data types (`Uop`, `Behaviour`, `Decoding`, `Endpoint`), and what enters and leaves a variant;
- `constants`: a microarchitecture's widths, queues and front end (`CoreConstants`), from `cores/*.toml`;
- `facts`: what an instructions.xml says of one variant on one architecture, as numbers;
- `resources`: gives letters to ports that were inferred by time;
- `build`: makes graphs of µops out of these facts;
- `file`: reads a machine from an instructions.xml (`read_machine`).
"""
