"""Running machine code in child processes of this machine."""
