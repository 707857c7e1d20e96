"""``cfetch bench``."""
