"""How long to wait before the next login, and what a row of failures means. No I/O."""

from __future__ import annotations

import random
from typing import Final

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 5.0
#: The broker knows us and says no; people have to change something before it says yes.
LONGEST_REFUSED_S: Final = 30.0
#: Somebody else logs in with our identifier, and each of us throws the other out.
LONGEST_CONTESTED_S: Final = 120.0
#: A link that held for this long was a good one: the next attempt comes at once.
GOOD_S: Final = 10.0
#: Two clients with one identifier seldom leave each other alone for longer than this.
SHORT_S: Final = 60.0
#: This many short links in a row are no accident.
CONTESTED_AFTER: Final = 3


class Retry:
    """The pauses of one client.

    Attributes:
        short_links: links in a row that were cut right after a login that the broker accepted.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pause_s = FIRST_PAUSE_S
        self.short_links = 0

    @property
    def contested(self) -> bool:
        """Whether another client seems to use our identifier.

        MQTT 3.1.1 does not say why a broker hangs up. A broker that restarts is unreachable in
        between, so only logins that follow one another at once count.
        """
        return self.short_links >= CONTESTED_AFTER

    def after(self, *, held_s: float | None, refused: bool) -> float:
        """The pause before the next attempt, seconds.

        Args:
            held_s: how long the link stood; None when there was none.
            refused: the broker refused the login.
        """
        if held_s is None or held_s >= SHORT_S:
            self.short_links = 0
        else:
            self.short_links += 1
        if held_s is not None and held_s >= GOOD_S and not self.contested:
            self._pause_s = FIRST_PAUSE_S
        if self.short_links == CONTESTED_AFTER:
            self._pause_s = LONGEST_PAUSE_S
        longest_s = LONGEST_REFUSED_S if refused else LONGEST_PAUSE_S
        if self.contested:
            longest_s = LONGEST_CONTESTED_S
        pause_s = min(self._pause_s, longest_s) * self._rng.uniform(0.5, 1.0)
        self._pause_s = min(2.0 * self._pause_s, longest_s)
        return pause_s
