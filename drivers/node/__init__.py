"""A GPU node as controllers see it, through its agent (docs/agent-protocol.md)."""

from drivers.node.device import NodeDevice
from drivers.node.leasing import keep_leases

__all__ = ["NodeDevice", "keep_leases"]
