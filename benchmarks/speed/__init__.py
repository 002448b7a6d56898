"""Time and memory of the parts.

Reading order:

- on the CPU at hand: `clock` (known instructions), `blocks`, `one_command`, `forwarding`, `overhead` of a campaign;
- without hardware: `simulation`, `convert`, `database`, `encoding`, `fuzz_decoder`, `large_text`.
"""
