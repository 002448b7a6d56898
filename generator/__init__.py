"""From instruction variants to microbenchmarks: pure functions.

Reading order:

- `microbenchmark` (the result), `operands` (an instance's registers and values), `assemble` (an instance as a line of
  code), `factory` (instructions by name), `support` (initial values, prologues, dependency breakers);
- `sequences` (independent instances, blocking instructions, pairs that fuse), `chains` (latency), `memory` (stores,
  loads, caches);
- `harness` (the code around a microbenchmark);
- `exclusions` (instructions that are not measured), `facts` (reads the files of `tables/`), `cache`, `errors`.
"""
