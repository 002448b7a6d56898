"""From instruction variants to microbenchmarks: pure functions.

Reading order:

- `microbenchmark` (what is made), `operands` (an instance's registers and values), `assemble` (an instance as
  a line of code), `factory` (instructions by name), `support` (what an instruction needs around it);
- `sequences` (independent instances, blocking instructions, pairs that fuse), `chains` (latency), `memory` (stores,
  loads, and what is between them);
- `harness` (the code around all of it);
- `exclusions` (what is left out), `facts` (reads the files of `tables/`), `cache`, `errors`.
"""
