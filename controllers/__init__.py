"""What to ask of the plant, and why; imports only facility."""
