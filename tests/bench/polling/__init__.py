"""A fleet of prebuilt devices on loopback, and the collector that is measured against it."""
