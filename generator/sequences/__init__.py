"""Code without a chain through it.

`throughput` makes independent instances, `blocking` an instance among blocking instructions, `fusion` pairs that may
fuse.
"""
