"""Results of the functions of `uopscope.py`: objects that show themselves in a terminal and in a notebook.

Reading order: `instructions` (encodings, decoded bytes, variants), `characterized` (conclusions of a campaign),
`options` (of measuring code), `measured` (measurements of code).
"""
