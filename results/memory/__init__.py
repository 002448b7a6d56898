"""What memory does to time on one machine: types and forms.

Reading order: `model` (what is known), `documents` (JSON), `section` (a part of instructions.xml), `text` (for people),
`heat_map` (SVG).
"""
