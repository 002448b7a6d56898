"""Measures how fast the parts are."""
