"""The kernel module from user space: interface (`abi`), device (`device`), counters per run (`passes`)."""
