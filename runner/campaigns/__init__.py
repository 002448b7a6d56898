"""Many variants on one machine.

Reading order: `start` (opens machine and store), `campaign` (resumable), `concluded` (what became of a variant),
`parallel` (over processes), `plan` (what it would take), `selection` (choosing variants).
"""
