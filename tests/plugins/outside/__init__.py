"""A distribution of somebody else, which adds to cfetch by entry points alone."""
