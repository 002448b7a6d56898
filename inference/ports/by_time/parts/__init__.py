"""Parts of sets that no instruction of one µop has, so that nothing blocks them.

- `unions`: two smaller sets together;
- `beside`: what many instances beside a smaller set tell;
- `known`: the parts that what computes on a load has, with an example of each.
"""
