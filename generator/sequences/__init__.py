"""Code without a chain through it.

`throughput` makes independent instances, `memory` their places. `blocking` puts an instance among blocking
instructions, and `mixes` distributes them evenly, for timing, with `filler` that takes issue slots. `fusion` makes
pairs that may fuse, `decoding` instances among NOPs, `renaming` one that writes the same register over and over,
`elimination` moves in chains. `flags` makes chains through flags that two instructions write.
"""
