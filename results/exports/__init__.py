"""Databases in other forms, one file each.

Reading order: `exporters` (how a form is found, and what it is given), `frames` (pandas), `tables`, `documents`,
`parquet`, `osaca` (with `mnemonics`), `exegesis`.
"""
