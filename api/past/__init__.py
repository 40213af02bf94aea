"""The past for machines: what may be asked in a URL, and how answers become JSON and CSV."""
