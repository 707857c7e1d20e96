"""Measures and tunes: bench, simulation, tune."""
