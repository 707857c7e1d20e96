"""Samples of lists, a module for each table at the end of docs/manifests.md."""
