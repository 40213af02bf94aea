"""A unit that gives nothing says why in words that tell where to look: cable, gateway or unit."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from drivers.modbus.reasons import no_connection


@pytest.mark.parametrize(
    ("error", "host", "words"),
    [
        (OSError(errno.ECONNREFUSED, "[Errno 111] …"), "h", "cannot connect: Connection refused"),
        (OSError(errno.ENOENT, "port x: x"), "", "cannot be opened: No such file or directory"),
        (socket.gaierror(-2, "Name or service not known"), "h", "h is not known by name"),
        (TimeoutError(), "h", "no connection within 2 s"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "h", "cannot connect: Connection timed out"),
        (OSError("Multiple exceptions: a, b"), "h", "cannot connect: Multiple exceptions: a, b"),
        (OSError(), "h", "cannot connect: OSError"),
        (ssl.SSLError(1, "wrong version"), "h", "no TLS: wrong version"),
    ],
)
def test_an_operating_systems_word_is_said_once(error: OSError, host: str, words: str) -> None:
    assert no_connection(error, host, 2.0) == words


def test_a_certificate_that_is_refused_is_named_as_that() -> None:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "self-signed certificate"
    assert no_connection(error, "h", 2.0) == "its certificate is refused: self-signed certificate"
