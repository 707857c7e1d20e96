"""The page: its document by pure functions, and the page itself in a real browser."""
