"""The mark of a directory with a plan that Spark has prepared. All runs look for it, even without Spark."""

ABOUT = "about.json"  # JSON, as its numbers may be too large for msgpack
