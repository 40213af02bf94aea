"""tests controllers cooling."""
