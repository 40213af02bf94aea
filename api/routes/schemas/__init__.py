"""The shapes of answers and requests. Units stand in every name and description.

Times are ISO 8601 in UTC. What is not known is null, never 0. Adding a field is fine, renaming is
not.
"""

from __future__ import annotations

from api.routes.schemas.alarms import (
    AcknowledgeIn,
    AlarmChangeOut,
    AlarmEventOut,
    AlarmOut,
    DeliveryOut,
    SinkOut,
    SinkTestOut,
)
from api.routes.schemas.control import (
    AuditOut,
    CommandOut,
    DecisionOut,
    GrantedOut,
    ModeIn,
    ModeOut,
    OverrideIn,
    OverrideOut,
    ReleaseIn,
    ReleaseOut,
    SetpointOut,
    WithheldOut,
)
from api.routes.schemas.plant import (
    DeviceOut,
    FacilityOut,
    LoopOut,
    RackOut,
    TrustOut,
)
from api.routes.schemas.readings import (
    HistoriesOut,
    HistoryOut,
    PastOut,
    PointOut,
    PointsPage,
    ReadingOut,
    SampleOut,
    SeriesOut,
)
from api.routes.schemas.shape import (
    FieldProblem,
    ModeName,
    ProblemOut,
    Reason,
    Shape,
    Wish,
)

__all__ = [
    "AcknowledgeIn",
    "AlarmChangeOut",
    "AlarmEventOut",
    "AlarmOut",
    "AuditOut",
    "CommandOut",
    "DecisionOut",
    "DeliveryOut",
    "DeviceOut",
    "FacilityOut",
    "FieldProblem",
    "GrantedOut",
    "HistoriesOut",
    "HistoryOut",
    "LoopOut",
    "ModeIn",
    "ModeName",
    "ModeOut",
    "OverrideIn",
    "OverrideOut",
    "PastOut",
    "PointOut",
    "PointsPage",
    "ProblemOut",
    "RackOut",
    "ReadingOut",
    "Reason",
    "ReleaseIn",
    "ReleaseOut",
    "SampleOut",
    "SeriesOut",
    "SetpointOut",
    "Shape",
    "SinkOut",
    "SinkTestOut",
    "TrustOut",
    "Wish",
    "WithheldOut",
]
