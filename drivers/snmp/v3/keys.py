"""Keys of SNMPv3 users: from a passphrase to the key of one agent, and digests made with it.

RFC 3414 section 2.6 and appendix A.2; RFC 7860 for the SHA-2 family.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

#: a passphrase is repeated to this many octets before it is hashed (RFC 3414 A.2.1)
STRETCHED_OCTETS: Final = 1_048_576
#: digest -> octets of it that a message carries (RFC 3414 section 6, RFC 7860 section 4.1)
MAC_OCTETS: Final[Mapping[str, int]] = {
    "md5": 12,
    "sha1": 12,
    "sha224": 16,
    "sha256": 24,
    "sha384": 32,
    "sha512": 48,
}
#: cipher -> octets of its key, pre-IV of DES included
KEY_OCTETS: Final[Mapping[str, int]] = {
    "des": 16,
    "aes128": 16,
    "aes192": 24,
    "aes256": 32,
    "aes192_cisco": 24,
    "aes256_cisco": 32,
}


@dataclass(frozen=True, slots=True)
class AgentKeys:
    """The keys of one user on one agent; None where its level has none."""

    mac: bytes | None
    privacy: bytes | None


def _hashed(digest: str, data: bytes) -> bytes:
    # MD5 and SHA-1 are what the agent has; this is no use of theirs that anybody could choose.
    return hashlib.new(digest, data, usedforsecurity=False).digest()


@lru_cache(maxsize=256)
def stretched(digest: str, passphrase: bytes) -> bytes:
    """The user's key Ku of a passphrase (RFC 3414 A.2); some milliseconds, so remembered."""
    turns = -(-STRETCHED_OCTETS // len(passphrase))
    return _hashed(digest, (passphrase * turns)[:STRETCHED_OCTETS])


def localized(digest: str, user_key: bytes, engine_id: bytes) -> bytes:
    """The key Kul of a user on one engine (RFC 3414 section 2.6)."""
    return _hashed(digest, user_key + engine_id + user_key)


@lru_cache(maxsize=4096)
def keys_of(
    digest: str | None, secret: str, cipher: str | None, privacy_secret: str, engine_id: bytes
) -> AgentKeys:
    """The keys of a user without fault (`Credentials.fault`) on the agent with this engine id."""
    if digest is None:
        return AgentKeys(None, None)
    mac = localized(digest, stretched(digest, secret.encode()), engine_id)
    if cipher is None:
        return AgentKeys(mac, None)
    key = localized(digest, stretched(digest, privacy_secret.encode()), engine_id)
    size = KEY_OCTETS[cipher]
    while len(key) < size:
        # Both drafts lengthen a key that is too short, each in its own way.
        if cipher.endswith("_cisco"):
            key += localized(digest, stretched(digest, key), engine_id)
        else:
            key += _hashed(digest, key)
    return AgentKeys(mac, key[:size])


def mac_of(digest: str, key: bytes, message: bytes) -> bytes:
    """The digest of a whole message whose place for the digest holds zeros."""
    return hmac.digest(key, message, digest)[: MAC_OCTETS[digest]]


def same(a: bytes, b: bytes) -> bool:
    """Whether two digests are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(a, b)
