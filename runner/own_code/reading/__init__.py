"""Sources of code.

Reading order:

- `sources`: text, bytes, files, and symbols of object files, all parts of a measurement alike;
- `text` (both syntaxes, labels, directives), `att` (AT&T to Intel), `gnu_as` (the last resort);
- `listing`: assembly text as compilers write it;
- `objects` (ELF files), `programs` (taken apart into blocks), `debug_lines` (lines of the source).
"""
