"""Each element's meter explained by the meters declared below it: a wrong cord shows itself."""

from controllers.reconcile.balance import Balance, balance_of
from controllers.reconcile.compare import (
    ReconcileMemory,
    Residuals,
    reconcile,
    wiring_conditions,
    wiring_facts,
)

__all__ = [
    "Balance",
    "ReconcileMemory",
    "Residuals",
    "balance_of",
    "reconcile",
    "wiring_conditions",
    "wiring_facts",
]
