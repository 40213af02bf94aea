"""Made halls for the allocation bench, and a full linear program to judge plans by."""

from tests.bench.allocation.full import Full, full_optimum
from tests.bench.allocation.plants import Made, made_hall

__all__ = ["Full", "Made", "full_optimum", "made_hall"]
