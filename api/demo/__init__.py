"""The demo: a simulated plant, the real service on real protocols, and a judge."""
