"""What a hall can still take."""
