"""The pages of bench and tune."""
