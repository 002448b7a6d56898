"""Microarchitectures, one TOML file each: `tables` reads them, `from_perfmon` writes those of Intel."""
