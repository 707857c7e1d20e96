"""``cfetch report``: what the metrics of past runs say."""
