"""Code without a chain through it.

`throughput` makes independent instances, `memory` their places, `blocking` an instance among blocking instructions,
`fusion` pairs that may fuse, `decoding` instances among NOPs,
`renaming` one that writes the same register over and over.
"""
