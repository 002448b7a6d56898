"""From XED's datafiles to a catalogue of instruction variants, and from variants to bytes and back."""
