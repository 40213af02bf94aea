"""tests controllers headroom."""
