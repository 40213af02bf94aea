"""What the plant is, what we know of it, and where it is kept; knows no other package."""
