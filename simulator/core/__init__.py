"""The out-of-order core that executes a microbenchmark's bytes.

Reading order: `pmu` (runs a program and counts), `frontend` (bytes to instructions), `compiler` (instructions to
steps), `opcode` (what bytes say), `trace` and `runs` (repetitions), `branches`, `delivery` (when µops arrive), `core`
(issue, dispatch, retire), `binding` (µops to ports), `sharing` (moves that are eliminated), `values`, `domains` (of
vectors), `memory` (what loads wait for), `locations`. `late_forms` follows producers behind which instructions take
longer.
"""
