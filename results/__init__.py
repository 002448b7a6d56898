"""Measurements and conclusions: their types, their store, their exports."""
