"""Port usage without port counters: by the time that mixes of independent instructions take.

Reading order:

- `mixes` (what one mix says), `members` (instructions that show a set), `votes` (what several of them say);
- `machine` (the sets of ports that can be kept busy), `wide` (those of code with 512-bit instructions);
- `diagram` (which ports sets share), `blockers` (the instruction to block a set with);
- `published` (published names of ports), `hypotheses` (usages of known sets);
- `timed_probe` (what is known of one variant), `slots` (its issue slots), `infer` (what to ask about it);
- `orders` (times of the same code in several orders, where they are noisy);
- `conclude` (what the answers amount to), the room `parts` (parts of sets that nothing blocks), `counterparts` (whether
  the form with registers contradicts it).

`generator.sequences.mixes` makes the code; port arithmetic is in `results.ports`.
"""
