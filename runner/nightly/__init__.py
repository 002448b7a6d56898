"""A campaign every night: `night` (the run and its summary), `systemd` (the units that start it)."""
