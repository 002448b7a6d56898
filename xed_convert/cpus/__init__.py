"""Which ISA sets a CPU has: by its name (`chips`), and by CPUID (`cpuid`)."""
