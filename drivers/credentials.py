"""What a device wants to hear before it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

CredentialKind = Literal["community", "community_v1", "snmpv3", "password"]

#: digests of SNMPv3 (RFC 3414, RFC 7860) and ciphers (RFC 3414, RFC 3826; the longer keys of AES
#: after draft-blumenthal-aes-usm-04 and, with `_cisco`, after draft-reeder-snmpv3-usm-3desede-00)
DIGESTS: Final = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
CIPHERS: Final = ("des", "aes128", "aes192", "aes256", "aes192_cisco", "aes256_cisco")

#: the least octets that an SNMPv3 passphrase may have (RFC 3414 section 11.2)
LEAST_PASSPHRASE: Final = 8


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a device wants to hear, resolved from wherever the secrets are kept.

    Attributes:
        kind: "community" (SNMP v2c), "community_v1", "snmpv3" (user) or "password".
        user: for passwords and SNMPv3.
        secret: community, password, or passphrase of the digest; never logged, `repr` hides it.
        digest, cipher: of SNMPv3, by the names of `DIGESTS` and `CIPHERS`; None for none.
        privacy_secret: passphrase of the cipher.
        context: SNMPv3 context name; empty for the usual one.
    """

    kind: CredentialKind = "community"
    user: str | None = None
    secret: str = field(default="public", repr=False)
    digest: str | None = None
    cipher: str | None = None
    privacy_secret: str = field(default="", repr=False)
    context: str = ""

    def fault(self) -> str | None:
        """What makes an SNMPv3 user impossible, in words without the secret; None if nothing."""
        if self.kind != "snmpv3":
            return None
        if not self.user:
            return "an SNMPv3 user needs a name"
        if self.digest is not None and self.digest not in DIGESTS:
            return f"no SNMPv3 digest {self.digest!r} (known: {', '.join(DIGESTS)})"
        if self.cipher is not None and self.cipher not in CIPHERS:
            return f"no SNMPv3 cipher {self.cipher!r} (known: {', '.join(CIPHERS)})"
        if self.cipher is not None and self.digest is None:
            return "SNMPv3 has no privacy without a digest"
        for name, needed, secret in (
            ("secret", self.digest, self.secret),
            ("privacy_secret", self.cipher, self.privacy_secret),
        ):
            if needed is not None and len(secret.encode()) < LEAST_PASSPHRASE:
                return f"{name}: an SNMPv3 passphrase has at least {LEAST_PASSPHRASE} octets"
        return None
