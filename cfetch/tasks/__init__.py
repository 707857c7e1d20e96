"""A plan cut into shares for many tasks."""
