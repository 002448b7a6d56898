"""The machine that this runs on.

Reading order: `cpu` (which CPU), `isa_sets` (what it can), `conditions` (what of its state may change what is
measured), `core_scheduling` (whether siblings can be kept idle), `native` (running machine code in a child process),
`interrupts` (where interrupts catch it), `kmod` (the kernel module from user space).
"""
