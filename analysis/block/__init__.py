"""A block of code as a machine executes it.

Reading order:

- `markers`: the region that is marked as OSACA, IACA and LLVM-MCA do;
- `code`: instructions as the machine executes them; unknown ones are listed (`Item`, `Block`);
- `effects`: what an instruction reads and writes, and the cycles between; its µops by port set;
- `reader`: bytes to these instructions (`CodeReader`), by the rules of `zero_uppers`, `high_bytes` and `fused_nops`;
- `repeated`: follows code that runs again and again, for these rules and others;
- `zero_uppers`: which scalar instructions need not wait for the part of a register that they keep;
- `high_bytes`: where AH, BH, CH and DH are merged with their registers, and where they take a cycle longer;
- `fused_nops`: which NOPs take no issue slot;
- `avx_transitions`: which instructions wait because AVX and legacy SSE instructions are mixed.
"""
