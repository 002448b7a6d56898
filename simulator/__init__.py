"""An out-of-order core driven by a machine model: the machines whose truth is known."""
