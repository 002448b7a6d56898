"""What an instruction shows alone, before anything is blocked.

Reading order:

- `layout`: the counters, and which ports they can tell apart;
- `isolation`: what an instruction does alone, and what that says of its ports;
- `load_balance`: what the loads of ports say, since cores deal out µops evenly;
- `accuracy`: how far counters and the clock are off.
"""
