"""Loads and stores of a block: where they lead, and what follows from that.

Reading order:

- `environment`: what registers and memory hold before the code;
- `accesses`: what an instruction reads and writes, and which loads read from stores (`ForwardedLoad`);
- `state`: registers and memory while code is followed;
- `meaning`: what one instruction does to them;
- `pages`: lines and pages that are reached under new addresses;
- `commits`: how long stores take on their way into the cache;
- `addresses`: all of it for a block, over iterations (`AddressFollower`);
- `pointers`: which loads take a cycle less because a load made their base.
"""
