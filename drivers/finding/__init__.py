"""What only the device itself can say: what it is, which rows it has, where its variables are."""

from drivers.finding.naming import NamedVariables
from drivers.finding.recognising import Claim, Unclear, claim_of, fits, recognise
from drivers.finding.rows import find_rows
from drivers.finding.walking import Asks, Walks

__all__ = [
    "Asks",
    "Claim",
    "NamedVariables",
    "Unclear",
    "Walks",
    "claim_of",
    "find_rows",
    "fits",
    "recognise",
]
