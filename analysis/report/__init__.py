"""Reports of a prediction, for people and for programs.

Reading order: `facts` (what every report says of an instruction), `text` (for a terminal), `data` (JSON).
"""
