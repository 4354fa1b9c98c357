"""What is asked of the names of a stage before it opens, and which names may open by themselves."""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.stages.near_names import NearNames, is_same_folded
from fleetledger.schemas.class_names import fault_of, skeleton
from fleetledger.schemas.values import ClassName, DeviceId


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
