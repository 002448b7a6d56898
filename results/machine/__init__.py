"""The machine model: the µops of each instruction variant, and the core's widths and queues.

The simulator executes it, analysis reads it. Reading order:

- `graph`: the data types (`Uop`, `Behaviour`, `Decoding`, `Endpoint`), and a variant's inputs and outputs;
- `constants`: a microarchitecture's widths, queues and front end (`CoreConstants`), from `cores/*.toml`;
- `facts`: the numbers of an instructions.xml about one variant on one architecture;
- `resources`: gives letters to ports that were inferred by time;
- `round_trips`: latencies from one kind of register to another, of which only sums are known;
- `build`: makes graphs of µops out of these facts, by the next ones;
- `kept`: results that wait for their own register;
- `roles`: which µops load, store and compute;
- `latencies`: those between operands;
- `graph_builder`: the µops of one graph;
- `occupied`: what an instruction keeps busy besides ports;
- `file`: reads a machine from an instructions.xml or a campaign (`read_machine`);
- `cached`: keeps machines that were read, for the next time.
"""
