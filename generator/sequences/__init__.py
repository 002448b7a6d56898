"""Code without a chain through it.

`throughput` makes independent instances, `memory` their places, `blocking` an instance among blocking instructions,
`mixes` the same spread evenly, for timing, `fusion` pairs that may fuse, `decoding` instances among NOPs,
`renaming` one that writes the same register over and over.
"""
