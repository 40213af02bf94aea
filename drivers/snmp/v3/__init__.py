"""SNMPv3 with the user-based security model, as the one who asks."""
