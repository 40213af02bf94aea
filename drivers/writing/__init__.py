"""Writing one point of a device, and telling the truth about what became of it."""

from drivers.writing.target import Target, idempotent, target_of
from drivers.writing.writer import Writer

__all__ = ["Target", "Writer", "idempotent", "target_of"]
