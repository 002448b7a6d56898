"""The out-of-order core that executes a microbenchmark's bytes.

Reading order:

- `pmu` (runs a program and counts), `frontend` (bytes to instructions), `compiler` (what they do on a machine);
- `steps` (what the core executes);
- `trace` and `runs` (repetitions), `branches`;
- `streams` (code that takes the same, since only names of registers differ);
- `delivery` (the front end), `core` (issue, dispatch, retire), `binding` (µops to ports), `sharing` (move elimination);
- `values` (operand values), `memory` (loads and stores), `late_forms` (instructions whose time depends on the producers
  of operands).
"""
