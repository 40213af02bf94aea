"""How work gets to the database: one writer with its inbox, a few readers."""
