"""A campaign's file: raw samples first, conclusions beside them.

Reading order: `records` (what is kept), `store` (writing and reading), `file` (opening, locking, `schema.sql`), `codec`
(everything as JSON, with `tagged` for derivations and `scalars` for numbers), `packed` (conclusions only, compressed).
"""
