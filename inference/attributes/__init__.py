"""Attributes of an instruction beside latency, throughput and ports: one file each.

Reading order:

- `decoding`: µops from the decoders, and which decoders take it;
- `fusion`: with which conditional jumps it fuses;
- `renaming`: idioms, µops that are divided at rename, and results that merge;
- `flags`: whether it waits for the flags that it keeps, and what a read of both takes;
- `elimination`: how many moves rename eliminates;
- `divider`: for how long it keeps the divider busy;
- `value_classes`: whether operand values change its time;
- `bypass`: whether vectors take longer from one domain to the other;
- `producers`: whether it takes longer behind some producers of what it only reads;
- `carried`: and of what every chain needs.
"""
