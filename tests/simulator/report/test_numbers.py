"""Numbers as people read them."""

import pytest

from fleetledger.simulator.metrics.over_seeds import PairedDifference, paired_difference, summary
from fleetledger.simulator.report.numbers import (
    NOTHING,
    byte_scale,
    second_scale,
    show,
    show_difference,
    show_summary,
)


def plain(text: str) -> str:
    """Numbers and units are held together by a space at which no line breaks."""
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.8835, "share", "88.35 %"),
        (0.0123, "points", "1.23 points"),
        (1023, "bytes", "1,023 B"),
        (1024, "bytes", "1.00 KiB"),
        (3.5 * 1024**3, "bytes", "3.50 GiB"),
        (0.25, "seconds", "0.25 s"),
        (90, "seconds", "90.00 s"),
        (150, "seconds", "2.50 min"),
        (9000, "seconds", "2.50 h"),
        (12_345, "samples", "12,345 samples"),
        (312.4, "mebibytes", "312.4 MiB"),
        (None, "share", NOTHING),
    ],
)
def test_a_value_has_the_unit_in_which_it_reads_well(value, unit, text):
    assert plain(show(value, unit)) == text


def test_mean_and_deviation_share_a_unit():
    assert plain(show_summary(summary([2048.0, 4096.0]), "bytes")) == "3.00 ± 1.41 KiB"
    assert plain(show_summary(summary([0.5]), "share")) == "50.00 %"
    assert show_summary(None, "share") == NOTHING


def test_a_difference_of_shares_is_in_points_with_sign_and_interval():
    difference = PairedDifference(mean=0.02, deviation=0.01, low=-0.005, high=0.045, count=3)
    assert plain(show_difference(difference, "share")) == "+2.00 [-0.50, +4.50] points"


def test_a_difference_of_one_seed_has_no_interval():
    assert plain(show_difference(paired_difference({1: 5000.0}, {1: 2952.0}), "bytes")) == (
        "-2.00 KiB"
    )
    assert show_difference(None, "bytes") == NOTHING


def test_scales_stop_at_their_largest_unit():
    assert byte_scale(0) == (1.0, "B")
    assert byte_scale(1024**6) == (1024.0**4, "TiB")
    assert second_scale(10**9) == (86_400.0, "d")
