"""Throughput code and other special sequences.

Reading order:

- `throughput`: independent instances, with `addresses` (places in memory);
- `blocking`: an instance among blocking instructions; `mixes`: the same distributed evenly, for timing, with `filler`
  that takes issue slots; `divisions`: an instance among divisions;
- `fusion`: pairs that may macro-fuse; `decoding`: instances among NOPs;
- `renaming`: writes to one register; `elimination`: moves in chains; `flags`: chains through partly written flags;
- `bypass`: rings through classes of instructions.
"""
