"""tests controllers gpu caps."""
