"""One priority class: its best caps in the room that higher classes leave."""

from controllers.allocation.stage.market import Market
from controllers.allocation.stage.one import Remembered, Stage, StageResult

__all__ = ["Market", "Remembered", "Stage", "StageResult"]
