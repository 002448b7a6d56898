"""Machine models: what a simulated core does with each variant, and how wide and deep it is.

Reading order:

- `machine`: parameters, and a behaviour per variant; `notation`: the text that tables describe graphs of µops by;
- `shipped`: models in `simulator/models/`; `scheduling_model`: makes graphs out of what a scheduling model states;
  `graph_rules`: changes them; `convert_llvm`: makes the shipped tables; `measured`: makes a machine from an
  instructions.xml;
- `random_shape`: a machine drawn from a seed as a whole, and the kinds of them; `random_machine`: what it does with
  each variant; `noise`: how far counters are off; `late_rules`: what takes longer behind some producers; `units`: what
  counters by execution unit count;
- `truth`: what inference should find.
"""
