"""Attributes of an instruction beside latency, throughput and ports: one file each.

Reading order:

- `decoding`: µops from the decoders, and which decoders take it;
- `fusion`: the conditional jumps with which it macro-fuses;
- `renaming`: idioms, unlamination, and partial register writes;
- `flags`: whether it waits for the flags that it leaves unchanged, and the cost of merging flags;
- `elimination`: how many moves rename eliminates;
- `divider`: how long it keeps the divider busy;
- `value_classes`: whether operand values change its time;
- `bypass`: bypass delays between the integer and floating-point domains;
- `producers`: whether the instruction that wrote an operand changes its time;
- `carried`: the same for operands that every chain needs.
"""
