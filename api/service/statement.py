"""Signed statements: Ed25519 over canonical JSON, with a key of the site.

The signed bytes are the UTF-8 JSON of the `statement` member: keys sorted, no spaces, numbers as
Python's json writes them, no NaN. Whoever has the public key can verify a statement anywhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

ALGORITHM: Final = "Ed25519"
SEED_BYTES: Final = 32
KEY_ID_DIGITS: Final = 16


class BadKey(ValueError):
    """A text that is no signing key."""


def canonical(statement: Mapping[str, Any]) -> bytes:
    """The bytes that are signed.

    Raises:
        ValueError: it holds what JSON cannot.
    """
    text = json.dumps(
        statement, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    return text.encode()


class Signer:
    """Signs with one private key."""

    def __init__(self, seed: bytes) -> None:
        """Take a key of 32 bytes."""
        if len(seed) != SEED_BYTES:
            raise BadKey(f"a signing key has {SEED_BYTES} bytes, not {len(seed)}")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def of_text(cls, text: str) -> Signer:
        """From the base64 of the key's 32 bytes.

        Raises:
            BadKey: it is no such text; the text itself is not repeated.
        """
        try:
            seed = base64.b64decode(text.strip(), validate=True)
        except (binascii.Error, ValueError):
            raise BadKey("a signing key is the base64 of 32 bytes") from None
        return cls(seed)

    @property
    def public_text(self) -> str:
        """The public key as base64."""
        return base64.b64encode(self.public).decode()

    @property
    def key_id(self) -> str:
        """Short name of the public key."""
        return key_id(self.public)

    def sign(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """The statement with its signature."""
        value = base64.b64encode(self._key.sign(canonical(statement))).decode()
        signature = {"algorithm": ALGORITHM, "key_id": self.key_id, "value": value}
        return {"statement": dict(statement), "signature": signature}


def new_key() -> str:
    """A new signing key as text."""
    return base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()


def key_id(public: bytes) -> str:
    """Short name of a public key."""
    return hashlib.sha256(public).hexdigest()[:KEY_ID_DIGITS]


def signed_by(document: Mapping[str, Any], public: bytes) -> str | None:
    """Why a document is not signed by this key; None when it is.

    Hostile input gives a reason, never an exception.
    """
    statement, signature = document.get("statement"), document.get("signature")
    if not isinstance(statement, Mapping) or not isinstance(signature, Mapping):
        return "it has no statement and signature"
    if signature.get("algorithm") != ALGORITHM:
        return f"it is not signed with {ALGORITHM}"
    if signature.get("key_id") != key_id(public):
        return "another key signed it"
    try:
        value = base64.b64decode(str(signature.get("value")), validate=True)
        Ed25519PublicKey.from_public_bytes(public).verify(value, canonical(statement))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return "its signature cannot be read"
    except InvalidSignature:
        return "the statement is not what was signed"
    return None


def public_of(text: str) -> bytes:
    """The public key of its base64.

    Raises:
        BadKey: it is no such text.
    """
    try:
        public = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise BadKey("a public key is the base64 of 32 bytes") from None
    if len(public) != SEED_BYTES:
        raise BadKey(f"a public key has {SEED_BYTES} bytes, not {len(public)}")
    return public
