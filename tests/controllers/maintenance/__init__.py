"""Work on the plant."""
