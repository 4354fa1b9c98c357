"""What the gates of accuracy are measured on, and what is promised of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks.papers.rollout_gates.fleets import Setting
from fleetledger.coordinator.core.phrases import count_of

_TWO = Setting("", things=2, copies=10, alike=0.9)
_FIVE = Setting("", things=5, copies=20, alike=0.9)
_EQUAL = (
    Setting("equal, independent"),
    Setting("equal, independent, 100 classes", classes=100),
    replace(_TWO, name="equal, bursts 2 x 10"),
    replace(_TWO, name="equal, bursts 2 x 10, 100 classes", classes=100),
    replace(_FIVE, name="equal, bursts 5 x 20"),
    replace(_FIVE, name="equal, bursts 5 x 20, 100 classes", classes=100),
    Setting("equal, own offsets", spread=0.05),
    replace(_FIVE, name="equal, bursts 5 x 20, own offsets", spread=0.05),
    Setting("equal, sizes differ", sizes=1.5),
)
_SKEWED = (
    Setting("equal, offsets skewed 80 : 20", things=400, skew=(0.8, 0.01, -0.04)),
    Setting("equal, offsets skewed 90 : 10", things=400, skew=(0.9, 0.008, -0.072)),
)
_WORSE = (
    Setting("4 points worse, independent", drop=0.04),
    Setting("4 points worse, own offsets", drop=0.04, spread=0.05),
    replace(_TWO, name="4 points worse, bursts 2 x 10", drop=0.04),
    replace(_FIVE, name="4 points worse, bursts 5 x 20", drop=0.04),
    Setting("2 points worse, independent", drop=0.02),
    Setting("2 points worse, own offsets", drop=0.02, spread=0.05),
    replace(_FIVE, name="2 points worse, bursts 5 x 20", drop=0.02),
    Setting("one class of 10 loses 50 %", lost=0.5),
    Setting("one class of 10 loses 30 %", lost=0.3),
    Setting("one class of 100 loses 50 %", lost=0.5, classes=100),
    Setting("3 points worse in the first quarter, 1 better later", drift=(0.03, -0.01)),
)
_PUSHED = (
    Setting("8 points worse, one liar says better", drop=0.08, liars=1, lie="better"),
    Setting("8 points worse, 2 % say better", drop=0.08, liars=0.02, lie="better"),
)
_VETOED = (
    Setting("2 points better, one liar says worse", drop=-0.02, liars=1),
    Setting("2 points better, 2 % say worse", drop=-0.02, liars=0.02),
    Setting(
        "2 points better, each says worse by chance of 2 %", drop=-0.02, liars=0.02, by_chance=True
    ),
)
_LIARS_BESIDES = (
    Setting("4 points worse, 2 % say better", drop=0.04, liars=0.02, lie="better"),
    Setting("equal, one liar says worse", liars=1),
    Setting("equal, 2 % say worse", liars=0.02),
)
SETTINGS = (*_EQUAL, *_SKEWED, *_WORSE, *_PUSHED, *_VETOED, *_LIARS_BESIDES)
SMALL = tuple(
    replace(kind, name=f"{count_of(devices)}, {kind.name}", devices=devices, classes=1)
    for devices in (1, 5, 10, 20)
    for kind in (
        Setting("equal, 100 images", things=100),
        replace(_FIVE, name="equal, 5 x 20 images"),
        Setting("8 points worse, 100 images", things=100, drop=0.08),
    )
)
"""Fleets of which some are too small to decide."""


@dataclass(frozen=True)
class BetterSetting:
    """Judges of an adapter."""

    setting: Setting

    @property
    def name(self) -> str:
        """The name of the setting."""
        return self.setting.name


def _judged(name: str, setting: Setting, *devices: int) -> tuple[BetterSetting, ...]:
    return tuple(
        BetterSetting(replace(setting, name=f"{count} judges, {name}", devices=count, classes=1))
        for count in devices
    )


_HUNDRED = Setting("", things=100)
_EQUAL_ADAPTERS = (
    *_judged("equal", _HUNDRED, 20, 50, 100),
    *_judged("equal, bursts 5 x 20", _FIVE, 20, 50, 100),
    *_judged("equal, bursts 10 x 50", replace(_FIVE, things=10, copies=50, alike=1.0), 20, 50),
    *_judged("equal, one liar says better", replace(_HUNDRED, liars=1, lie="better"), 20, 50),
)
BETTER = (
    *_EQUAL_ADAPTERS,
    *_judged("equal, 2 % say better", replace(_HUNDRED, liars=0.02, lie="better"), 50, 100),
    *_judged(
        "6 points worse, one liar says better",
        replace(_HUNDRED, drop=0.06, liars=1, lie="better"),
        20,
    ),
    *_judged("2 points better", replace(_HUNDRED, drop=-0.02), 20, 50, 100),
    *_judged("6 points better", replace(_HUNDRED, drop=-0.06), 20, 50, 100),
    *_judged(
        "6 points better, one liar says worse", replace(_HUNDRED, drop=-0.06, liars=1), 20, 50, 100
    ),
    *_judged("6 points better, bursts 5 x 20", replace(_FIVE, drop=-0.06), 20, 50, 100),
)


@dataclass(frozen=True)
class Promise:
    """A bound on a share of rollouts."""

    setting: str
    figure: str
    """What is counted: `stopped`, `by_group_2`, `by_group_3`, `passed`."""
    bound: float
    at_most: bool = False

    def holds(self, found: dict[str, Any]) -> bool:
        """Return whether counts of the setting keep it."""
        share = found[self.figure] / found["rollouts"]
        return bool(share <= self.bound if self.at_most else share >= self.bound)


PROMISES = (
    *(Promise(one.name, "stopped", 0.01, at_most=True) for one in _EQUAL),
    *(Promise(one.name, "stopped", 0.015, at_most=True) for one in _SKEWED),
    Promise("4 points worse, independent", "by_group_2", 0.80),
    Promise("2 points worse, independent", "by_group_3", 0.85),
    *(Promise(one.name, "by_group_2", 1.0) for one in _PUSHED),
    *(Promise(one.name, "stopped", 0.03, at_most=True) for one in _VETOED),
    *(Promise(one.name, "passed", 0.005, at_most=True) for one in _EQUAL_ADAPTERS),
    Promise("20 judges, 6 points better, one liar says worse", "passed", 0.9),
)
