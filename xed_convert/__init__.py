"""From XED's datafiles to a catalogue of instruction variants, and from variants to bytes and back.

Reading order:

- `model` (variants, operands, values), `datafiles` (reads XED), `expansion` (records to variants);
- `catalogue` (the stored result), `encoding` (variants to bytes and back), `assembly` (text), `cpus` (their ISA sets);
- for all packages: `errors`, `files` (written whole or not at all), `globs`, `numbers`, `extras` (optional packages),
  `garbage` (when Python collects it).
"""
