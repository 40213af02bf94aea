"""The past as it is asked for: raw samples, buckets of them, quarters, days of the site."""

from __future__ import annotations

from facility.store.past.answering import answer
from facility.store.past.latest import latest
from facility.store.past.question import Answer, Question

__all__ = ["Answer", "Question", "answer", "latest"]
