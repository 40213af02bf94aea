"""Takes out of texts what identifies a device, its place or its people.

Pure. The same text always becomes the same placeholder, so that what belonged together still does.
Addresses and names become those that standards set aside for examples (RFC 5737, RFC 3849,
RFC 2606), a MAC address a locally administered one. What is known to identify (the device's own
name, its serial, the host it was reached at) is found wherever it stands; what only looks like it
is found by its form. Nobody can know every form: what was kept is shown to a person.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Final

#: shorter words stand in too many texts to be anybody's name
SHORTEST: Final = 3
#: the same for one word of where a device stands and who looks after it
SHORTEST_WORD: Final = 4
#: words of such texts that say nothing of anybody
PLAIN: Final = frozenset({
    "admin", "administrator", "agent", "cabinet", "card", "center", "centre", "contact",
    "control", "cooling", "data", "default", "department", "device", "enclosure", "floor",
    "group", "hall", "location", "manager", "monitor", "monitoring", "network", "none", "null",
    "office", "operations", "operator", "phase", "power", "public", "rack", "room", "root",
    "server", "service", "site", "snmp", "support", "system", "team", "test", "undefined", "unit",
    "unknown", "unset", "user", "your",
})  # fmt: skip

_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9_./+-]*"
_SERIAL: Final = re.compile(
    r"(?i)\b(?:s/?n|ser(?:ial)?(?:[ ._-]*(?:no|nr|num(?:ber)?))?|asset(?:[ ._-]*(?:tag|id))?"
    rf"|service[ ._-]*tag|uuid|guid|host(?:name)?|sys(?:tem)?name|location|contact|owner)"
    rf"\b[ \t]*[.:=#]+[ \t]*({_WORD})"
)
_MAC: Final = re.compile(
    r"(?<![0-9A-Za-z:])(?:(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}"
    r"|(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}|(?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{12})(?![0-9A-Za-z:])"
)
_UUID: Final = re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_MAIL: Final = re.compile(r"[^\s@<>(),;:]+@[^\s@<>(),;:]+")
_HOST: Final = re.compile(
    r"(?i)(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:local|localdomain|lan|corp|home"
    r"|intern|internal|private|test|example|invalid|arpa|com|net|org|edu|gov|mil|int|io|ai|cloud"
    r"|info|dev|eu|uk|us|de|at|ch|fr|nl|be|se|no|dk|fi|pl|cz|es|it|pt|jp|cn|kr|tw|in|au|nz|ca|br"
    r"|mx)(?![\w-])"
)
_V4: Final = re.compile(
    r"(?i)(?<![\w.])(?<!ver )(?<!rev )(?<!version )(?<!revision )(?<!firmware )(?<!release )"
    r"(?<!version: )(?<!firmware: )(?<!fw )(\d{1,3}(?:\.\d{1,3}){3})(?![\w]|\.\d)"
)
_V6: Final = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
#: what `uname -a` says begins with the system and the host
_UNAME: Final = re.compile(r"\A(?:Linux|FreeBSD|NetBSD|OpenBSD|SunOS|Darwin) (\S+) (?=\S*\d)")


class Scrubber:
    """Replaces; remembers what it replaced by what.

    Attributes:
        replaced: text -> placeholder, in the order of first use.
    """

    def __init__(
        self, secrets: Iterable[str] = (), keep: Iterable[str] = (), people: Iterable[str] = ()
    ) -> None:
        """Take what is known to identify, and what says of which make a device is.

        Args:
            secrets: names, serials, hosts; those of less than three characters are left alone.
            people: texts about a place or people, each word of which identifies too.
            keep: texts that stay, unless they are secrets: makers, models, versions.
        """
        self.replaced: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        spoken = [text.strip() for text in people]
        found = {text.strip() for text in (*secrets, *spoken)}
        self._keep = {text.strip() for text in keep} - found
        product = {word.lower() for text in self._keep for word in re.findall(r"\w+", text)}
        words = {word for text in spoken for word in re.findall(r"\w+", text)}
        found |= {
            word
            for word in words
            if len(word) >= SHORTEST_WORD and word.lower() not in PLAIN | product
        }
        self._known = [
            (text, re.compile(rf"(?i)(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])"))
            for text in sorted(found, key=lambda text: (-len(text), text))
            if len(text) >= SHORTEST
        ]

    def name(self, text: str) -> str:
        """A placeholder for a whole text, of the same form where the form is a MAC address."""
        if text == "":
            return text
        if re.fullmatch(r"0x(?:[0-9a-f]{2})+", text):  # octets that are no text
            octets = len(text) // 2 - 1
            return self._put(text, lambda n: f"0x{n & (1 << 8 * octets) - 1:0{2 * octets}x}")
        if re.fullmatch(r"[0-9A-Fa-f]{12}", text):
            return self._put(text, lambda n: f"02{n:010X}")
        return self._put(text, lambda n: f"text{n}")

    def text(self, text: str) -> str:
        """A text for people with every part replaced that identifies."""
        for secret, form in self._known:
            if form.search(text):
                text = form.sub(self._put(secret, _numbered("name")), text)
        text = _MAIL.sub(self._whole(lambda n: f"somebody{n}@example"), text)
        text = _UNAME.sub(self._group(_numbered("name")), text)
        text = _SERIAL.sub(self._group(_numbered("serial")), text)
        text = _UUID.sub(self._whole(_numbered("uuid")), text)
        text = _MAC.sub(
            self._whole(lambda n: f"02:00:00:00:{n >> 8 & 255:02x}:{n & 255:02x}"), text
        )
        text = _V6.sub(self._address(lambda n: f"2001:db8::{n:x}"), text)
        text = _V4.sub(self._address(lambda n: f"192.0.2.{n % 255}"), text)
        return _HOST.sub(self._whole(lambda n: f"host{n}.example"), text)

    def _whole(self, made: Callable[[int], str]) -> Callable[[re.Match[str]], str]:
        return lambda match: self._unless_kept(match[0], made)

    def _group(self, made: Callable[[int], str]) -> Callable[[re.Match[str]], str]:
        def put(match: re.Match[str]) -> str:
            start, stop = match.start(1) - match.start(), match.end(1) - match.start()
            word = match[1].rstrip(".,;/-")
            left = match[0][start + len(word) : stop]
            head, tail = match[0][:start], match[0][stop:]
            return f"{head}{self._unless_kept(word, made)}{left}{tail}"

        return put

    def _address(self, made: Callable[[int], str]) -> Callable[[re.Match[str]], str]:
        def put(match: re.Match[str]) -> str:
            try:
                address = ipaddress.ip_address(match[0])
            except ValueError:
                return match[0]
            return match[0] if address.is_unspecified else self._unless_kept(match[0], made)

        return put

    def _unless_kept(self, text: str, made: Callable[[int], str]) -> str:
        if text in self._keep or text in self.replaced.values():
            return text
        return self._put(text, made)

    def _put(self, text: str, made: Callable[[int], str]) -> str:
        known = self.replaced.get(text)
        if known is None:
            form = made(0)
            self._counts[form] = number = self._counts.get(form, 0) + 1
            known = self.replaced[text] = made(number)
        return known


def _numbered(word: str) -> Callable[[int], str]:
    return lambda number: f"{word}{number}"
