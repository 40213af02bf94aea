"""How halls are capped without Wattkeeper, each as its source says, on the same plant and hour."""
