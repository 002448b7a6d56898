"""Static pages of a database: a table of everything, a page per variant and architecture, comparisons.

Reading order: `build` (writes the site), `views` (what a page shows), `attributes` (their words), `pages` (renders it),
`tables` (data of the big table), `experiments` (what stands behind the numbers), `memory` (the page about store
forwarding).
"""
