"""Measuring code that a user gives.

Reading order: `code` (bytes to a microbenchmark), `blocks` (basic blocks that read and write anywhere).
"""
