"""Checks of the names of a stage before it opens, and of names that may open by themselves.

Names are perhaps the same, mistyped: a letter more, another one, or two swapped. Names that differ
in their digits alone are series, such as `gate 1` and `gate 2`, and short names are too often a
letter apart for that to mean anything. Names that differ in case and in what divides their words
(`Red Apple`, `red_apple`) are near at any length.

Every name is looked up by what is left of it when a letter or two are taken out, so a thousand
names are compared with thousands in the time of a few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.state import State
from fleetledger.schemas.class_names import fault_of, skeleton
from fleetledger.schemas.values import ClassName, DeviceId

_SHORT = 4
_LONG = 8
"""Names of so many letters may differ by two."""
_FEW = 500
"""Among more names than that, one letter is all that near ones differ by."""
_DIGITS = re.compile(r"\d+")
_DIVIDERS = re.compile(r"[\s_.-]+")


class NearNames:
    """Names among which near ones are looked for."""

    def __init__(self, names: Iterable[str]) -> None:
        listed = list(names)
        self._most = 2 if len(listed) <= _FEW else 1
        self._by_rest: dict[str, set[str]] = {}
        for name in listed:
            for rest in _rests(_folded(name), self._most):
                self._by_rest.setdefault(rest, set()).add(name)

    def near(self, name: str) -> list[str]:
        """Return other names that are perhaps meant, sorted."""
        rests = _rests(_folded(name), self._most)
        found = {other for rest in rests for other in self._by_rest.get(rest, ())}
        return sorted(other for other in found if other != name and _is_near(name, other))


def is_same_folded(one: str, other: str) -> bool:
    """Whether names differ in case and dividers alone."""
    return _folded(one) == _folded(other)


def distance(one: str, other: str) -> int:
    """Return how many letters are put in, left out, changed or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        former, row_before, before, row = before, row, row, [i]
        for j, wanted in enumerate(other, start=1):
            changed = row_before[j - 1] + (letter != wanted)
            cost = min(row_before[j] + 1, row[j - 1] + 1, changed)
            if i > 1 and j > 1 and one[i - 2] == wanted and letter == other[j - 2]:
                cost = min(cost, former[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _folded(name: str) -> str:
    return _DIVIDERS.sub("", name.casefold())


def _is_near(name: str, other: str) -> bool:
    one, two = _folded(name), _folded(other)
    if one == two:
        return True
    if _DIGITS.sub("#", one) == _DIGITS.sub("#", two):
        return False
    return distance(one, two) <= _allowed(min(len(one), len(two)))


def _allowed(length: int) -> int:
    return 0 if length < _SHORT else 1 if length < _LONG else 2


def _rests(folded: str, letters: int) -> set[str]:
    """Return a name and what is left of it without so many letters, at most two."""
    # The other name may be a letter shorter, so a name that just may differ by two is long enough.
    most = min(_allowed(len(folded) + 2), letters)
    return {
        "".join(folded[i] for i in range(len(folded)) if i not in out)
        for count in range(most + 1)
        for out in combinations(range(len(folded)), count)
    }


def usable(state: State, names: Iterable[ClassName]) -> list[ClassName]:
    """Return those names, in their order, that may become classes without anybody being asked.

    Left out are those with a fault, and those beyond ASCII that look like a class, or like a name
    before them.
    """
    known = {skeleton(name) for name in state.classes.accepted_names}
    plain = {skeleton(name) for name in state.classes.accepted_names if not name.isascii()}
    found = []
    for name in names:
        look = skeleton(name)
        if fault_of(name) or look in (plain if name.isascii() else known):
            continue
        found.append(name)
        known.add(look)
        if not name.isascii():
            plain.add(look)
    return found


def doubts_about(state: State, names: tuple[ClassName, ...]) -> list[str]:
    """Return what is strange about names for a stage, a sentence each."""
    new = [name for name in names if not state.classes.knows(name)]
    reported = _reported(state)
    others = [name for name in reported if name not in names]
    classes = state.classes.accepted_names
    near_classes, near_reports = NearNames(classes), NearNames(others)
    looks = {skeleton(name): name for name in classes}
    found = []
    for name in new:
        alike = looks.setdefault(skeleton(name), name)
        if alike != name:
            found.append(f"class {str(name)!r} looks like {str(alike)!r}")
        near = [
            other
            for other in near_classes.near(name)
            if other != alike and (name not in reported or is_same_folded(name, other))
        ]
        if near:
            found.append(
                f"class {str(name)!r} is new, and near to the fleet's {_quoted(near)}; "
                "`fleetledger class merge SOURCE TARGET` makes two names one class"
            )
        if name in reported:
            continue
        for other in near_reports.near(name):
            whom = some(reported[ClassName(other)])
            found.append(f"class {str(name)!r} is reported by no device, but {other!r} by {whom}")
    return found


def _reported(state: State) -> dict[ClassName, list[DeviceId]]:
    """Return the names that devices report and the fleet lacks, with who does."""
    found: dict[ClassName, list[DeviceId]] = {}
    for device in state.devices.admitted:
        for name in state.stages.reports_of(device).named:
            if not state.classes.knows(name):
                found.setdefault(name, []).append(device)
    return found


def _quoted(names: Iterable[str]) -> str:
    return some(repr(str(name)) for name in names)
