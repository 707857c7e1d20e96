"""What `cfetch follow` does, step by step."""
