"""Running machine code in child processes of this machine.

Reading order: `runner` (jobs of a backend), `child` (the parent's side of the process), `server` (the process),
`faults` (faults in words), `steps` (misaligned accesses), `cpuid`.
"""
