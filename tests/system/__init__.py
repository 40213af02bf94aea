"""Real servers and processes on loopback."""
