"""Running machine code in child processes of this machine.

Reading order: `runner` (jobs of a backend), `child` (the parent's side of the process), `server` (the process),
`faults` (what ended code, in words), `steps` (what is misaligned), `cpuid`.
"""
