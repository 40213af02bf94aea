"""How to talk to devices; imports only facility."""
