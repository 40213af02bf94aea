from __future__ import annotations

import numpy as np
import pytest

from controllers.cooling.air import dew_point_c


@pytest.mark.parametrize(
    ("air_c", "humidity", "dew_c"), [(24, 0.5, 12.9), (27, 0.6, 18.6), (30, 0.6, 21.4)]
)
def test_dew_points_of_the_magnus_formula(air_c: float, humidity: float, dew_c: float) -> None:
    assert dew_point_c(np.array([air_c]), np.array([humidity]))[0] == pytest.approx(dew_c, abs=0.06)


def test_unknown_and_bone_dry_air_has_no_dew_point() -> None:
    assert np.isnan(dew_point_c(np.array([np.nan, 20.0]), np.array([0.5, 0.0]))).all()
