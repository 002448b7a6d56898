"""Databases in other forms, one file each.

Reading order: `exporters` (how a form is found, and what it is given), `tidy` (three tables), `tables`, `documents`,
`parquet`, `osaca` (with `mnemonics`), `exegesis`.
"""
