"""The tables and documents of bench and tune."""
