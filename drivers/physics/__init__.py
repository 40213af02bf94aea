"""Physics that the readings of one device must agree with: a wrong scale shows here first.

A failed check says that a profile, a wiring or a sensor is wrong. It marks readings, and never
alters a value.
"""

from drivers.physics.once import run_checks
from drivers.physics.vocabulary import CHECKS, CheckResult, Doubt
from drivers.physics.watching import Physics, physics_of

__all__ = ["CHECKS", "CheckResult", "Doubt", "Physics", "physics_of", "run_checks"]
