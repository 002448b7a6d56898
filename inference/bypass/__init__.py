"""Bypass delays between classes of instructions: a matrix of producers and consumers.

Reading order: `solve` (what rings of two and three classes tell of each direction), `measure` (the experiments).
"""
