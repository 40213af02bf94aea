"""tests controllers allocation."""
