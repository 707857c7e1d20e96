"""The optional parts, found by name; nothing in the core imports them."""
