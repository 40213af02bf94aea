"""What makers and readers of the portable form agree on."""

from __future__ import annotations

from typing import Final

FORM: Final = "wattkeeper-backup-2"
#: What the first release wrote: without hashes, without the facility file.
FORMS: Final = ("wattkeeper-backup-1", FORM)
PAGE: Final = 2_000
