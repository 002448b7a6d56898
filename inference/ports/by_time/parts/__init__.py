"""Parts of sets that no blocking instruction has, so that nothing keeps them busy.

- `unions`: two smaller sets together;
- `beside`: what many instances beside a smaller set tell;
- `known`: the parts that what computes on a load has, with an example of each.
"""
