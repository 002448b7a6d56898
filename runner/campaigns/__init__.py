"""Many variants on one machine.

Reading order: `campaign` (resumable), `parallel` (over processes), `plan` (what it would take), `selection` (which
variants).
"""
