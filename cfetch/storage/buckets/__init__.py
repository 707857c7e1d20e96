"""Object stores as sources and destinations."""
