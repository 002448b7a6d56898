"""Operands of an instance: its registers, addresses and values, its reads and writes.

Reading order: `registers` (names and storage), `reserved` (registers of the harness), `allocation` (registers,
addresses, immediates), `effects` (reads and writes of an instance), `places` (sources and destinations of latencies),
`values` (operand values that matter), `value_classes` (classes of values that may change the time).
"""
