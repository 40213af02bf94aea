"""What a device wants to hear before it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

CredentialKind = Literal["community", "community_v1", "snmpv3", "password"]

#: digests of SNMPv3 (RFC 3414, RFC 7860) and ciphers (RFC 3414, RFC 3826; the longer keys of AES
#: after draft-blumenthal-aes-usm-04 and, with `_cisco`, after draft-reeder-snmpv3-usm-3desede-00)
DIGESTS: Final = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
CIPHERS: Final = ("des", "aes128", "aes192", "aes256", "aes192_cisco", "aes256_cisco")


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
