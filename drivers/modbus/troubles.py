"""Why an answer of a Modbus unit is none, in the words of whoever has to go and look. Pure."""

from __future__ import annotations

from typing import Final

from drivers.modbus.pdu import NOBODY_THERE, Fault, exception_of, exception_text

#: a gateway that was reached, and the unit behind it that was not
NOT_BEHIND: Final = "the gateway is there, but says that unit {unit} does not answer"
REFUSES: Final = "unit {unit} answers: {why}"
SILENT: Final = "there is a connection, but unit {unit} is silent"
HUNG_UP: Final = "the other side closes the connection: it may serve one client, who is another"
JUNK: Final = "what unit {unit} sends is no answer: a wrong framing, rate or parity, or noise"


def trouble_of(unit: int, request: bytes, answer: bytes | Fault) -> str:
    """Empty where an answer is of use, and where there is no link: that one tells by itself."""
    if isinstance(answer, bytes):
        code = exception_of(request, answer)
        words = NOT_BEHIND if code in NOBODY_THERE else REFUSES
        return "" if code is None else words.format(unit=unit, why=exception_text(code))
    if answer in (Fault.AWAY, Fault.CROWDED):
        return "" if answer is Fault.AWAY else answer.value
    return {Fault.SILENT: SILENT, Fault.HUNG_UP: HUNG_UP}.get(answer, JUNK).format(unit=unit)
