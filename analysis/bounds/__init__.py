"""Lower bounds of what a block takes.

Reading order:

- `dependencies`: the slowest cycle of dependencies through iterations;
- `front_end`: predecoder, decoders, µop cache, loop buffer;
- `components`: all of them, whose largest is the prediction (`bounds_of`).
"""
