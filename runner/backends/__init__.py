"""One file per backend; `registry` finds them by listing this folder."""
