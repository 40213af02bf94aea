"""What traps are called: notifications of the device families that a hall has."""

from __future__ import annotations

from typing import Final

Oid = tuple[int, ...]

_APC: Final = (1, 3, 6, 1, 4, 1, 318, 0)
_UPS: Final = (1, 3, 6, 1, 2, 1, 33, 2)
_RARITAN: Final = (1, 3, 6, 1, 4, 1, 13742, 6, 0)
_SNMP: Final = (1, 3, 6, 1, 6, 3, 1, 1, 5)

#: SNMPv2-MIB, UPS-MIB (RFC 1628), PowerNet-MIB, PDU2-MIB; a number that is not here is shown as
#: it is, which is better than a name that is wrong
_NAMES: Final[dict[Oid, str]] = {
    (*_SNMP, 1): "cold start",
    (*_SNMP, 2): "warm start",
    (*_SNMP, 3): "link down",
    (*_SNMP, 4): "link up",
    (*_SNMP, 5): "authentication failure",
    (*_UPS, 1): "UPS on battery",
    (*_UPS, 2): "UPS test completed",
    (*_UPS, 3): "UPS alarm raised",
    (*_UPS, 4): "UPS alarm cleared",
    (*_APC, 1): "UPS communication lost",
    (*_APC, 2): "UPS overload",
    (*_APC, 4): "UPS battery discharged",
    (*_APC, 5): "UPS on battery",
    (*_APC, 7): "UPS low battery",
    (*_APC, 8): "UPS communication established",
    (*_APC, 9): "UPS power restored",
    (*_APC, 126): "ATS source switched",
    (*_APC, 127): "ATS redundancy lost",
    (*_APC, 128): "ATS redundancy restored",
    (*_APC, 131): "ATS communication lost",
    (*_APC, 132): "ATS overcurrent",
    (*_APC, 133): "ATS overcurrent cleared",
    (*_APC, 163): "sensor too hot",
    (*_APC, 164): "sensor no longer too hot",
    (*_APC, 173): "contact open (leak, door or smoke)",
    (*_APC, 174): "contact closed again",
    (*_APC, 268): "PDU outlet on",
    (*_APC, 269): "PDU outlet off",
    (*_APC, 274): "PDU near overload",
    (*_APC, 275): "PDU near overload cleared",
    (*_APC, 276): "PDU overload",
    (*_RARITAN, 23): "PDU outlet switched",
    (*_RARITAN, 60): "PDU unit sensor changed",
    (*_RARITAN, 61): "PDU inlet sensor changed",
    (*_RARITAN, 62): "PDU inlet pole sensor changed",
    (*_RARITAN, 63): "PDU outlet sensor changed",
    (*_RARITAN, 65): "PDU breaker sensor changed",
    (*_RARITAN, 66): "external sensor changed (leak, door, temperature)",
}
_ENTERPRISE_SPECIFIC: Final = 6


def trap_name(oid: Oid) -> str:
    """What a trap is called; its number where no family of ours names it."""
    return _NAMES.get(oid) or ".".join(str(arc) for arc in oid)


def v1_oid(enterprise: Oid, generic: int, specific: int) -> Oid:
    """The name of a version 1 trap in the words of version 2 (RFC 3584 section 3.1)."""
    if generic != _ENTERPRISE_SPECIFIC:
        return (*_SNMP, generic + 1)
    return (*enterprise, 0, specific)
