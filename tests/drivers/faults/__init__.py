"""Faults on the wire: a proxy that mangles what passes, and what every driver must do then."""
