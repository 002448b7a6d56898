"""Machine models: the µops of each variant, and the core's widths and queues.

Reading order:

- `machine`: parameters, and a behaviour per variant; `notation`: graphs of µops as text;
- `shipped`: models in `simulator/models/`; `scheduling_model`: makes graphs from a scheduling model; `graph_rules`:
  changes them; `convert_llvm`: makes the shipped tables; `measured`: makes a machine from an instructions.xml;
- `random_shape`: the parameters of a random machine, and the kinds of these machines; `random_machine`: its behaviour
  per variant; `noise`: errors of counters; `late_rules`: late forms; `bypass`: bypass delays; `units`: counters by
  execution unit;
- `truth`: the right conclusions.
"""
