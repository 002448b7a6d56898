"""Port usage without port counters: by the time that mixes of independent instructions take.

Reading order: `mixes` (what one mix says), `machine` (the sets of ports that can be kept busy), `diagram` (how these
lie in each other), `published` (names of ports that somebody published), `hypotheses` (usages of known sets), `infer`
(one variant); `fit` (given times of any mixes). `generator.sequences.mixes` makes the code; port arithmetic is in
`results.ports`.
"""
