"""A campaign's file: raw samples first, conclusions beside them.

Reading order: `records` (what is kept), `store` (writing and reading), `file` (opening, locking, `schema.sql`), `codec`
(everything as JSON), `packed` (conclusions only, compressed).
"""
