"""People, pages, webhooks, the command line and the wiring; imports everybody."""
