"""Microarchitectures, one TOML file each; `tables` reads them."""
