"""The commands of `uopscope db`.

Reading order: `build`, `check`, `diff`, `compare`, `query` and `export` (a file for each command), `common` (what they
share).
"""
