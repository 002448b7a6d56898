"""What an instruction needs around it.

`initial` is register contents, `prologue` code before and after each instance, `breakers` are instructions that cut a
dependency. `producers` are ways to write a register, `carriers` those that read it as well.
"""
