"""From requests to values that can be trusted.

Reading order: `session` (many procedures over one backend), `protocol` (requests to jobs, samples to values), `sizing`
(copies and iterations), `aggregate` (samples to values per copy), `calibration` (what a core cycle is on a clock),
`quiet` (undisturbed repetitions), `recording` (what a campaign keeps).
"""
