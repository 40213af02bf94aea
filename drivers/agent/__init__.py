"""The node agent: the small privileged process that alone sets GPU power limits.

It imports no web framework, database, solver or device protocol. What it says and hears on the
bus stands in docs/agent-protocol.md.
"""
