"""A made hall of any size: its facility file, its points, and a plant that feeds them."""

from tests.bench.hall.feed import Feed
from tests.bench.hall.text import FULL, SMALL, Size, hall_text, layouts_of

__all__ = ["FULL", "SMALL", "Feed", "Size", "hall_text", "layouts_of"]
