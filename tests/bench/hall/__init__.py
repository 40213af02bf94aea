"""A made hall of any size: its facility file, its points, a plant that feeds them, its cycles."""

from tests.bench.hall.feed import Feed
from tests.bench.hall.run import Costs, Run
from tests.bench.hall.text import FULL, SMALL, Size, hall_text, layouts_of

__all__ = ["FULL", "SMALL", "Costs", "Feed", "Run", "Size", "hall_text", "layouts_of"]
