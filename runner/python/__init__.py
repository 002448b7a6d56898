"""What the functions of `uopscope.py` return: objects that show themselves in a terminal and in a notebook.

Reading order: `instructions` (what is encoded, decoded and listed), `characterized` (what a campaign concluded).
"""
