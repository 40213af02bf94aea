"""tests controllers."""
