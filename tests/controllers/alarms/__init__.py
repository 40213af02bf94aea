"""tests controllers alarms."""
