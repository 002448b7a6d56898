"""The memory of a simulated machine.

Reading order: `parameters` (what it is like), `policies` (which line of a full set goes), `caches` (what is in them),
`buffer` (stores that are not done yet).
"""
