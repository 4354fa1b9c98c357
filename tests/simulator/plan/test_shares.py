"""Shares of whole things."""

import pytest

from fleetledger.simulator.plan.shares import part_of


@pytest.mark.parametrize(
    ("share", "number", "part"),
    [
        (0.6, 20, 12),
        (0.6, 5, 3),
        (0.7, 90, 63),
        (0.9, 39, 35),
        (0.29, 100, 29),
        (1.0, 7, 7),
        (0.0, 7, 0),
    ],
)
def test_a_share_is_rounded_down_from_its_written_value(share, number, part):
    assert part_of(share, number) == part
