"""What the plant is, what we know of it, and where it is kept; imports none of the other packages."""
