"""Samples in, decisions out: which attempts are far slower than normal, or have stopped. No clock, no I/O."""
