"""One hall as a running service: what it is made of, how it starts, and how it ends."""
