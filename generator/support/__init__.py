"""Code around an instruction.

`initial` sets register contents, `prologue` is code before and after each instance, `breakers` cut dependencies,
`producers` are different ways to write a register, `carriers` those that read it as well.
"""
