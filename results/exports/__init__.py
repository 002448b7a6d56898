"""Databases in other forms, one file each.

Reading order: `exporters` (finds and calls exporters), `tidy` (three tables), `tables`, `documents`,
`parquet`, `osaca` (with `mnemonics`), `exegesis`.
"""
