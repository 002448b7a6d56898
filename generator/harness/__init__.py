"""The code around a microbenchmark.

Reading order: `style` (what may be chosen), `harness` (one blob that saves, counts, runs and restores), `assembly`
(bytes of our own templates, in `templates/`), `assemble_templates` (makes these bytes), `native` (calibration chain,
drivers, fault handler).
"""
