"""A campaign beside measurements that others published of the same CPU.

Reading order: `published` (their numbers and ours), `reasons` (rules that explain differences), `ports` (port usages),
`compare` (what agrees).
"""
