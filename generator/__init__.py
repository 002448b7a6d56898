"""From instruction variants to microbenchmarks: pure functions."""
