"""Many variants on one machine.

Reading order: `start` (opens machine and store), `campaign` (resumable), `parallel` (over processes), `plan` (what it
would take), `selection` (choosing variants).
"""
