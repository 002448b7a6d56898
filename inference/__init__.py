"""Conclusions from measurements: pure procedures that never see a backend, and never import the simulator."""
