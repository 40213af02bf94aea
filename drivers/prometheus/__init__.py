"""Prometheus text: inference engines, dcgm-exporter and whatever else has a page of metrics."""
