"""One suite per port; every implementation passes it."""
