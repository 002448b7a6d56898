"""Static pages of a database: a table of everything, a page per variant and architecture, comparisons."""
