"""Tests of facility/store, each on SQLite and on PostgreSQL."""
