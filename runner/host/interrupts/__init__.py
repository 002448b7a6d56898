"""Where interrupts catch code that runs natively.

Reading order: `sample` (the parent's side: layouts, histograms), `sampler` (the process that runs the code),
`by_module` (the kernel module runs it).
"""
