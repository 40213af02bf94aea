"""A site's index arrays agree with what is asked point by point."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from facility.commands import Mode
from tests.controllers.toy import site_of, small_hall

SCOPES = ("hall", "rack:r01", "rack:r02", "loop:loop-1")


@given(st.dictionaries(st.sampled_from(SCOPES), st.sampled_from(list(Mode))))
def test_the_modes_of_all_caps_are_those_of_each(modes: dict[str, Mode]) -> None:
    site = site_of(small_hall())
    each = [site.mode_of(point, modes).activity for point in site.cap_points]
    assert site.cap_activity(modes).tolist() == each
