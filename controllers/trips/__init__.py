"""How much of its overload band each element has used up, and which limit is reached when."""

from controllers.trips.bands import Bands, bands_of
from controllers.trips.clocks import TripMemory, Trips, rested, trip_clocks
from controllers.trips.telling import seconds_left, trip_conditions, trip_facts
from controllers.trips.trend import TrendMemory, minutes_to_limit

__all__ = [
    "Bands",
    "TrendMemory",
    "TripMemory",
    "Trips",
    "bands_of",
    "minutes_to_limit",
    "rested",
    "seconds_left",
    "trip_clocks",
    "trip_conditions",
    "trip_facts",
]
