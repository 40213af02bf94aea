"""The power laws once more, for judging the product: shares no code with it."""
