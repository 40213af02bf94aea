"""Encryption of SNMPv3: DES in CBC (RFC 3414 section 8), AES in CFB (RFC 3826)."""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.decrepit.ciphers import algorithms as old
from cryptography.hazmat.decrepit.ciphers import modes as old_modes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

DES_BLOCK: Final = 8
#: octets of the salt that a message carries
SALT_OCTETS: Final = 8


def _cipher(
    name: str, key: bytes, boots: int, time_s: int, salt: bytes
) -> Cipher[modes.CBC | old_modes.CFB]:
    if name == "des":
        pre_iv = key[8:16]
        iv = bytes(a ^ b for a, b in zip(salt, pre_iv, strict=True))
        # Three times the same key make DES of triple DES.
        return Cipher(old.TripleDES(key[:8] * 3), modes.CBC(iv))
    head = boots.to_bytes(4, "big") + time_s.to_bytes(4, "big")
    return Cipher(algorithms.AES(key), old_modes.CFB(head + salt))


def salt_of(name: str, boots: int, counter: int) -> bytes:
    """The salt of the message with this number; never twice the same under one key."""
    if name == "des":
        return boots.to_bytes(4, "big") + (counter & 0xFFFF_FFFF).to_bytes(4, "big")
    return (counter & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "big")


def encrypted(name: str, key: bytes, boots: int, time_s: int, salt: bytes, plain: bytes) -> bytes:
    """The plain text under the key of one agent; padded to whole blocks for DES."""
    if name == "des":
        plain += bytes(-len(plain) % DES_BLOCK)
    worker = _cipher(name, key, boots, time_s, salt).encryptor()
    return worker.update(plain) + worker.finalize()


def decrypted(name: str, key: bytes, boots: int, time_s: int, salt: bytes, secret: bytes) -> bytes:
    """The reverse; padding stays.

    Raises:
        ValueError: a salt or a length that the cipher cannot have.
    """
    if len(salt) != SALT_OCTETS or (name == "des" and len(secret) % DES_BLOCK):
        raise ValueError("no such cipher text")
    worker = _cipher(name, key, boots, time_s, salt).decryptor()
    return worker.update(secret) + worker.finalize()
