"""Where interrupts catch a loop.

Reading order: `study` (samples in several layouts, and a prediction), `report` (as text and JSON), `plot` (as SVG).
"""
