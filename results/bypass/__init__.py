"""Bypass delays between classes of instructions.

Reading order: `model` (the types), `documents` (JSON), `text` (for people).
"""
