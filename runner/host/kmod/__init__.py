"""The kernel module from user space.

Reading order: `abi` (its interface), `settings` (environment variables), `device` (opened, batches run), `passes`
(counters per run), `preflight` (blocks, in a process first), `selftest`.
"""
