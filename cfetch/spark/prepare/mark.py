"""The mark of a directory with a plan that Spark has prepared. All runs look for it, most without Spark."""

ABOUT = "about.json"  # its numbers may be larger than msgpack's are
