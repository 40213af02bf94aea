"""The simulated hall: plant, faults, truth, and servers that speak the real protocols."""
