"""TLS towards brokers: whom to trust, and who we are, from files that people name."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Protocol


class TlsFiles(Protocol):
    """Paths of PEM files: a private authority, and a certificate of our own."""

    @property
    def ca_file(self) -> str | None:
        """Who may sign the other side's certificate; the system's own when None."""

    @property
    def cert_file(self) -> str | None:
        """What we show, where the other side asks."""

    @property
    def key_file(self) -> str | None:
        """Its key; in the certificate's file when None."""


class TlsUnusable(ValueError):
    """A file is not there or no good: key, path and why."""


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """A client's context; names of hosts are checked.

    Each file is opened by itself first: OpenSSL does not say which one it misses.

    Raises:
        TlsUnusable: a file cannot be used.
    """
    named = {key: getattr(files, key) for key in ("ca_file", "cert_file", "key_file")}
    for key, path in named.items():
        if path is not None:
            try:
                with Path(path).open("rb"):
                    pass
            except OSError as error:
                raise TlsUnusable(f"tls.{key}: {path}: {error.strerror}") from None
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise TlsUnusable(f"tls.ca_file: {files.ca_file}: {error}") from None
    if files.cert_file is not None:
        try:
            context.load_cert_chain(files.cert_file, files.key_file)
        except (OSError, ssl.SSLError) as error:
            raise TlsUnusable(f"tls.cert_file: {files.cert_file}: {error}") from None
    return context
