"""tests facility topology."""
