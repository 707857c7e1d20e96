"""Readers of the lists of other programs."""
