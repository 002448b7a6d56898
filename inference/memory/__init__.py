"""What memory does to time.

Reading order: `forwarding` (a load of what a store has just written).
"""
