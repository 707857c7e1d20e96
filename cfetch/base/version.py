"""The version of cfetch, in a module that imports nothing, so that any room may state it."""

__version__ = "0.1.0"
