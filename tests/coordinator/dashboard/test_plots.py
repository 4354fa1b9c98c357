"""Plots: labels that can be told apart, axes with room for everything, gaps that stay gaps."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetledger.coordinator.dashboard.parts.accuracy_plots import stage_plot, version_plot
from fleetledger.coordinator.dashboard.parts.plot import (
    LABEL,
    Drawing,
    Plot,
    PlotFrame,
    PlotLine,
    ValueAxis,
    apart,
)
from fleetledger.coordinator.dashboard.parts.presence_plot import presence_words
from fleetledger.coordinator.dashboard.parts.time_plots import (
    contributions_plot,
    health_plot,
    heat_plot,
    traffic_plot,
)
from fleetledger.coordinator.live.snapshot import FleetHeat, HealthPoint, TrafficPoint
from fleetledger.coordinator.reports.answers import RightCount
from fleetledger.coordinator.reports.contributions import CountsOverTime
from fleetledger.coordinator.reports.presence import Presence, PresenceSpan
from fleetledger.coordinator.reports.stage_accuracy import AccuracySpread, StageAccuracy
from fleetledger.coordinator.reports.version_accuracy import AccuracyByVersion, VersionAccuracy

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@given(st.lists(st.floats(0, 200), max_size=6))
def test_labels_keep_apart_and_in_their_order(places: list[float]) -> None:
    moved = apart(sorted(places))
    assert all(b - a >= LABEL - 1e-9 for a, b in itertools.pairwise(moved))
    if len(places) == 1:
        assert moved == places


@example(told=[5e-324, -6.0], from_zero=False)
@given(values, st.booleans())
def test_an_axis_has_room_for_all_values_and_few_marks(told: list[float], from_zero: bool) -> None:
    axis = ValueAxis.over(told, from_zero=from_zero)
    assert axis.low <= min(told) <= max(told) <= axis.high
    assert not from_zero or axis.low <= 0 <= axis.high
    assert 2 <= len(axis.marks()) <= 7


@given(st.floats(0, 1))
def test_an_axis_in_per_cent_ends_at_a_hundred(lowest: float) -> None:
    axis = ValueAxis.of_percent(lowest)
    assert axis.low <= 100 * lowest <= axis.high == axis.marks()[-1] == 100
    assert axis.marks()[0] == axis.low


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    drawing = Drawing((0, 4), ValueAxis.over([1, 5]), PlotFrame())
    drawing.lines([PlotLine([(0, 1), (1, 2), (2, None), (3, 5), (4, 4)], "x", mark="dot")])
    plot = drawing.done("")
    assert plot.paths[0].d.count("M") == 2
    assert len(plot.paths) == 1 + 4  # the line, and a mark for each that is known
    (label,) = plot.labels
    assert label.y == drawing.y(4) + 4


def spread(correct: int) -> AccuracySpread:
    share = correct / 100
    right = RightCount(correct=correct, total=100)
    return AccuracySpread(right=right, devices=3, low=share - 0.02, high=min(1.0, share + 0.01))


def labels(plot: Plot | None, word: str) -> list[float]:
    assert plot is not None
    return [one.y for one in plot.labels if re.match(word, one.text)]


def test_labels_of_lines_never_stand_on_each_other() -> None:
    for old, new in ((90, 90), (90, 91), (91, 90), (50, 99)):
        stage = StageAccuracy(
            stage=1, class_names=("a",), index=0, version=1, old=spread(old), new=spread(new)
        )
        plot = stage_plot([stage])
        (first,), (second,) = labels(plot, "old"), labels(plot, "new")
        assert abs(first - second) >= LABEL - 0.2
    assert stage_plot([]) is None


def test_a_gap_in_a_devices_health_is_not_drawn_over() -> None:
    minutes = (0, 10, 20, 120, 130)
    points = [HealthPoint(time_ns=m * 60 * 10**9, celsius=50 + m / 10) for m in minutes]
    plot = health_plot(points)
    assert plot is not None
    (line,) = (path.d for path in plot.paths if path.look == "line")
    assert line.count("M") == 2
    assert any(label.text == "85 °C is hot" for label in plot.labels)
    assert health_plot(points[:1]) is None
    held = [HealthPoint(time_ns=m * 60 * 10**9, resident_bytes=10**8) for m in minutes]
    of_memory = health_plot(held)
    assert of_memory is not None
    assert "memory" in of_memory.text


def version(number: int, stage: int, old: float | None, new: float | None) -> VersionAccuracy:
    return VersionAccuracy(
        version=number, stage=stage, classes=4, devices=2, all=0.9, old=old, new=new
    )


def test_versions_have_a_line_for_each_kind_of_class_that_there_is() -> None:
    def drawn(*versions: VersionAccuracy) -> Plot | None:
        return version_plot(
            AccuracyByVersion(measured=len(versions), of_pixels=False, versions=versions)
        )

    both = drawn(version(3, 1, None, 0.8), version(4, 2, 0.95, 0.7))
    assert [len(labels(both, which)) for which in ("all 90.0", "old 95.0", "new 70.0")] == [1] * 3
    assert [len(labels(both, f"stage {stage}")) for stage in (1, 2)] == [1, 1]
    one = drawn(version(1, 0, 0.9, None))
    assert [len(labels(one, which)) for which in ("all", "old", "new")] == [1, 0, 0]
    assert drawn() is None


def test_of_many_versions_the_newest_has_its_number_below() -> None:
    many = tuple(version(number, 1, None, 0.9) for number in range(1, 41))
    plot = version_plot(AccuracyByVersion(measured=40, of_pixels=False, versions=many))
    assert plot is not None
    told = [int(label.text) for label in plot.labels if label.look == "strong" and label.y > 190]
    assert told[-1] == 40
    assert len(told) <= 10


HOUR = 3600 * 10**9
TEN = 600 * 10**9


def counted(*counts: int, span_ns: int = HOUR) -> CountsOverTime:
    return CountsOverTime(first_ns=0, span_ns=span_ns, counts=counts)


def test_contributions_are_bars_with_the_most_in_words() -> None:
    plot = contributions_plot(counted(0, 3, 12, 1))
    assert plot is not None
    bars = [path for path in plot.paths if path.look == "column"]
    assert [bar.says for bar in bars][2] == "1 Jan 02:00: 12"
    assert plot.text == "16 contributions in 4 hours; the most, 12, from 1 Jan 02:00."
    assert contributions_plot(counted(0, 0)) is None
    by_day = contributions_plot(counted(1, span_ns=24 * HOUR))
    assert by_day is not None
    assert by_day.text == "1 contribution in 1 day; the most, 1, on 1 Jan."


def test_traffic_has_the_unit_that_suits_it_and_ends_with_whole_ten_minutes() -> None:
    points = [TrafficPoint(time_ns=n * TEN, bytes_in=2_000_000, bytes_out=n) for n in (0, 1, 3, 4)]
    plot = traffic_plot(points, 4 * TEN + 1)
    assert plot is not None
    assert [one.text for one in plot.labels if one.look in {"strong", "dashed"}] == [
        "in 2 MB",
        "out 3 bytes",
    ]
    line = next(path.d for path in plot.paths if path.look == "line")
    assert line.count("L") == 3  # what is not told of is nothing; the last ten minutes go on
    assert "MB in each ten minutes; the most passed in those from 00:30." in plot.text
    assert traffic_plot(points[:1], 4 * TEN) is not None
    assert traffic_plot([], 4 * TEN) is None


def test_temperatures_name_the_hottest_device_and_the_limit() -> None:
    told = [
        FleetHeat(time_ns=n * TEN, devices=2, mean=50, hottest=60 + n, device=f"dev-{n}")
        for n in (0, 1, 9)
    ]
    plot = heat_plot(told)
    assert plot is not None
    assert plot.text.startswith("Hottest in the last day: 69\N{NO-BREAK SPACE}°C, dev-9, at 01:30")
    texts = {label.text for label in plot.labels}
    assert {"85 °C is hot", "hottest 69", "mean 50"} <= texts
    assert all(path.d.count("M") == 2 for path in plot.paths if "line" in path.look)
    assert heat_plot(told[:1]) is None


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ("hhhh", "There all of the last 4 h."),
        ("aaaa", "Away all of the last 4 h."),
        ("uhhh", "There for 3 h of the last 4 h; for 1 h nobody knows."),
        ("uuaa", "Away for 2 h of the last 4 h; for 2 h nobody knows."),
        ("hahh", "There for 75.0 % of the last 4 h, away once, for 1 h."),
        ("ahah", "There for 50.0 % of the last 4 h, away twice, at most for 1 h."),
        ("uuuu", "Nobody knows whether it was there in the last 4 h."),
    ],
)
def test_presence_is_told_in_words(states: str, said: str) -> None:
    names: dict[str, Presence] = {"h": "here", "a": "away", "u": "unknown"}
    spans = [
        PresenceSpan(state=names[state], first_ns=n * HOUR, last_ns=(n + 1) * HOUR)
        for n, state in enumerate(states)
    ]
    joined = [list(group) for _, group in itertools.groupby(spans, lambda one: one.state)]
    whole = [one[0].model_copy(update={"last_ns": one[-1].last_ns}) for one in joined]
    assert presence_words(whole) == said
