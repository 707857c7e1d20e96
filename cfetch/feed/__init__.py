"""Feeds: follow a growing source whose ranges split and merge, routed by a cached lineage."""
