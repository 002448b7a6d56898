"""From requests to values that can be trusted.

Reading order: `session` (many procedures over one backend), `protocol` (requests to jobs, samples to values), `sizing`
(copies and iterations), `aggregate` (samples to values per copy), `calibration` (from clock ticks to core cycles),
`quiet` (undisturbed repetitions), `recording` (records of a campaign besides conclusions).
"""
