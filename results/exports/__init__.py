"""Other forms of the results: `frames` (pandas), `osaca` and `exegesis` (files for these tools)."""
