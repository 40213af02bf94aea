"""Samples on their way to a time-series cluster."""
