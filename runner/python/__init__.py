"""What the functions of `uopscope.py` return: objects that show themselves in a terminal and in a notebook.

Reading order: `instructions` (what is encoded, decoded and listed), `characterized` (what a campaign
concluded), `options` (of measuring code), `measured` (what came out).
"""
