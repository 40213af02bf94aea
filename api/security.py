"""Who is asking, and may they: API keys, roles, page sessions, CSRF tokens, wrong-key limits.

A key reads `wk.<name>.<secret>`. The store holds its argon2 hash; argon2 is paid once per key and
run (a worker thread does it, the control loop shares this event loop), afterwards the sha256 of
the key is compared in memory. Keys are read from the database when it answers and stay valid in
memory when it does not.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import Request

from api.problems import Problem
from facility.clock import Clock
from facility.store.errors import StoreError

COOKIE: Final = "wattkeeper_session"
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"
SESSION_S: Final = 12 * 3600.0
SESSIONS_MAX: Final = 1000
FAILURES_MAX: Final = 10
FAILURES_WINDOW_S: Final = 300.0
ADDRESSES_MAX: Final = 10_000
REFRESH_S: Final = 15.0
_KEY: Final = re.compile(r"wk\.([a-z0-9][a-z0-9\-]{0,62})\.([A-Za-z0-9_\-]{20,200})")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(IntEnum):
    """What a key may do; a higher role may all that a lower one may."""

    VIEWER = 1
    OPERATOR = 2
    ENGINEER = 3

    @classmethod
    def named(cls, name: str) -> Role:
        """The role of a name as stored.

        Raises:
            ValueError: no such role.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            roles = ", ".join(role.name.lower() for role in cls)
            raise ValueError(f"no role {name!r}; roles are {roles}") from None


class KeyRecord(Protocol):
    """One key as the store keeps it."""

    @property
    def name(self) -> str:
        """Unique name, shown as the actor of everything done with the key."""

    @property
    def role(self) -> str:
        """viewer, operator or engineer."""

    @property
    def hash(self) -> str:
        """argon2 hash of the whole key."""

    @property
    def revoked_ms(self) -> int | None:
        """When it was taken back; None while it is in force."""


#: All keys, the newest of a name last; raises StoreError or TimeoutError when they cannot be read.
KeySource = Callable[[], Awaitable[Sequence[KeyRecord]]]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking."""

    name: str
    role: Role
    csrf: str | None = None


@dataclass(frozen=True, slots=True)
class _Session:
    name: str
    key_hash: str
    csrf: str
    until_s: float


def issue_key(name: str, hasher: PasswordHasher | None = None) -> tuple[str, str]:
    """A new key and the hash to store; the key itself is never stored.

    Raises:
        ValueError: a name that cannot stand in a key.
    """
    key = f"wk.{name}.{secrets.token_urlsafe(32)}"
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{name!r}: a key's name is lower-case letters, digits and '-'")
    return key, (hasher or PasswordHasher()).hash(key)


class Attempts:
    """Wrong keys per address within a window; bounded in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def _recent(self, address: str) -> deque[float]:
        kept = self._failures.get(address, deque())
        limit_s = self._clock.monotonic_s() - FAILURES_WINDOW_S
        while kept and kept[0] <= limit_s:
            kept.popleft()
        return kept

    def check(self, address: str) -> None:
        """Refuse an address with too many recent failures, before any hash is computed."""
        recent = self._recent(address)
        if len(recent) >= FAILURES_MAX:
            wait_s = recent[0] + FAILURES_WINDOW_S - self._clock.monotonic_s()
            raise Problem(
                "too-many-attempts",
                f"{len(recent)} wrong keys from {address}; try again in {wait_s:.0f} s",
                headers={"Retry-After": f"{max(1, round(wait_s))}"},
            )

    def failed(self, address: str) -> None:
        """Count one wrong key."""
        recent = self._recent(address)
        recent.append(self._clock.monotonic_s())
        self._failures.pop(address, None)
        self._failures[address] = recent
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.pop(next(iter(self._failures)))


class Gate:
    """Knows keys and sessions; answers who a request comes from."""

    def __init__(
        self, source: KeySource, clock: Clock, hasher: PasswordHasher | None = None
    ) -> None:
        self._source = source
        self._clock = clock
        self._hasher = hasher or PasswordHasher()
        self._decoy = ""
        self._records: dict[str, KeyRecord] = {}
        self._read_s = float("-inf")
        self._verified: dict[bytes, tuple[str, str]] = {}
        self._sessions: dict[bytes, _Session] = {}
        self._said: dict[bytes, str] = {}
        self._hashing = asyncio.Semaphore(2)
        self.attempts = Attempts(clock)

    async def _refresh(self, *, at_once: bool = False) -> None:
        now_s = self._clock.monotonic_s()
        if not at_once and now_s - self._read_s < REFRESH_S:
            return
        self._read_s = now_s
        try:
            found = await self._source()
        except (StoreError, TimeoutError):
            return
        self._records = {record.name: record for record in found if record.revoked_ms is None}

    async def principal(self, key: str, address: str) -> Principal:
        """Who holds `key`.

        Raises:
            Problem: wrong-key, or too-many-attempts.
        """
        await self._refresh()
        digest = hashlib.sha256(key.encode()).digest()
        match = _KEY.fullmatch(key)
        name = match.group(1) if match else ""
        if name and name not in self._records:
            self.attempts.check(address)
            await self._refresh(at_once=True)
        record = self._records.get(name)
        known = self._verified.get(digest)
        if record is not None and known is not None and known == (name, record.hash):
            return Principal(name, Role.named(record.role))
        self.attempts.check(address)
        right = await self._verify(key, None if record is None else record.hash)
        if record is None or not right:
            self.attempts.failed(address)
            raise Problem(
                "wrong-key", "no key like this is in force", headers={"WWW-Authenticate": "Bearer"}
            )
        if len(self._verified) > SESSIONS_MAX:
            self._verified.clear()
        self._verified[digest] = (name, record.hash)
        return Principal(name, Role.named(record.role))

    async def _verify(self, key: str, stored: str | None) -> bool:
        """Whether `key` has the hash; an unknown name costs the same time as a known one."""

        def check() -> bool:
            if stored is None and not self._decoy:
                self._decoy = self._hasher.hash(secrets.token_urlsafe(32))
            try:
                return self._hasher.verify(self._decoy if stored is None else stored, key)
            except (VerificationError, InvalidHashError):
                return False

        async with self._hashing:
            return await asyncio.to_thread(check)

    async def log_in(self, key: str, address: str) -> tuple[str, Principal]:
        """A new page session: its cookie and who it is."""
        who = await self.principal(key, address)
        token, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        now_s = self._clock.monotonic_s()
        self._sessions = {k: s for k, s in self._sessions.items() if s.until_s > now_s}
        if len(self._sessions) >= SESSIONS_MAX:
            self._sessions.pop(next(iter(self._sessions)))
        key_hash = self._records[who.name].hash
        session = _Session(who.name, key_hash, csrf, now_s + SESSION_S)
        self._sessions[hashlib.sha256(token.encode()).digest()] = session
        return token, Principal(who.name, who.role, csrf)

    def log_out(self, token: str) -> None:
        """End a session."""
        digest = hashlib.sha256(token.encode()).digest()
        self._sessions.pop(digest, None)
        self._said.pop(digest, None)

    def say(self, token: str, text: str) -> None:
        """Keep a sentence for the next page of a session."""
        digest = hashlib.sha256(token.encode()).digest()
        if digest in self._sessions:
            self._said[digest] = text

    def said(self, token: str) -> str:
        """The sentence kept for this page, once."""
        return self._said.pop(hashlib.sha256(token.encode()).digest(), "")

    async def visitor(self, token: str) -> Principal | None:
        """Who a session cookie belongs to; None when it is unknown, over, or its key is gone."""
        session = self._sessions.get(hashlib.sha256(token.encode()).digest())
        if session is None or session.until_s <= self._clock.monotonic_s():
            return None
        await self._refresh()
        record = self._records.get(session.name)
        if record is None or record.hash != session.key_hash:
            return None
        return Principal(session.name, Role.named(record.role), session.csrf)

    async def who(self, request: Request) -> Principal | None:
        """Who a request comes from, by key or by session cookie; None when it says nothing.

        A session may change something only with its CSRF token in the `x-csrf-token` header;
        the page's forms carry it in a field instead.
        """
        key = presented_key(request)
        if key is not None:
            return await self.principal(key, address_of(request))
        who = await self.visitor(request.cookies.get(COOKIE, ""))
        if who is not None and request.method not in _SAFE:
            require_csrf(who, request.headers.get(CSRF_HEADER, ""))
        return who


def require_csrf(who: Principal, token: str) -> None:
    """Refuse a change by a session without its token."""
    if who.csrf is None or not hmac.compare_digest(who.csrf.encode(), token.encode()):
        raise Problem("no-csrf-token", "the form's token is missing or wrong; load the page again")


def presented_key(request: Request) -> str | None:
    """The key in `Authorization: Bearer` or `X-API-Key`, or None."""
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        return rest.strip()
    return request.headers.get("x-api-key") or None


def address_of(request: Request) -> str:
    """Where a request comes from; proxies are not believed."""
    return request.client.host if request.client else "unknown"


def require_role(who: Principal | None, role: Role) -> Principal:
    """Refuse nobody (401) and too low a role (403, naming the role needed)."""
    if who is None:
        raise Problem(
            "no-key",
            "send Authorization: Bearer KEY or X-API-Key: KEY",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if who.role < role:
        needed, has = role.name.lower(), who.role.name.lower()
        raise Problem(
            "missing-role", f"this needs the role {needed}; {who.name} is {has}", needs=needed
        )
    return who
