"""One file per backend, found by listing this folder."""
