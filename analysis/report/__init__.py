"""Reports of a prediction, for people and for programs.

Reading order: `timeline` (waits, and a picture of the first iterations), `text` (for a terminal), `data` (JSON, which
`schema.json` describes), `flow` (functions and loops), `compiler` (messages for editors), `drawing` and
`timeline_drawing` (SVG), `dot` (Graphviz), `page` (HTML, from `templates/`).
"""
