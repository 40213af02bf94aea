"""The simulated plant: physics, electricity, instruments, and the twin beside it."""
