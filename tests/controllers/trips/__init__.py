"""tests controllers trips."""
