"""The code around a microbenchmark.

Reading order: `style` (options), `harness` (one blob that saves, counts, runs and restores), `assembly` (bytes of the
templates in `templates/`), `assemble_templates` (makes these bytes), `native` (calibration chain, drivers, fault
handler).
"""
