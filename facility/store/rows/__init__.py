"""Tables and the statements on them, one module per group of tables.

Each function takes a connection inside a transaction that the caller opened, and speaks
`facility.store.records`: rows stay here.
"""
