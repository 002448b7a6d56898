"""The machine that this runs on.

Reading order: `cpu` (its identity), `isa_sets` (its instructions), `conditions` (settings that affect measurements),
`core_scheduling` (keeping siblings idle), `native` (running machine code in a child process), `interrupts` (where
interrupts arrive in code), `kmod` (the kernel module from user space).
"""
