"""What the store's benchmark is fed with, and the peer that it is compared with."""
