"""Stages that open by themselves: when enough devices have reported something new.

The rules, under `[stages] open = "reports"`:

- The next stage opens only when the last one is closed, and never without a frozen model.
- A device counts when it has reported class names that the registry lacks, or, since the last
  stage was opened, images that its model is unsure about. The latter gives no names, so at least
  one device has to report some. It also is a false alarm now and then, so it counts within a
  window before the newest report: `reports_within_seconds`, or the time that the report gives. The
  background's name is none where networks have it already.
- `reports_quorum` devices have to count, and `settle_seconds` have to pass without another report,
  so that classes that come together are learned together.
- Names that hide something, or look like a class or like each other, wait for the operator.
- The stage is opened for all names reported, those of most devices first, as many as one
  assignment can carry; the rest wait for the stage after.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from fleetledger.coordinator.core.decision import Decision
from fleetledger.coordinator.core.entry import COORDINATOR
from fleetledger.coordinator.core.live import NANOSECONDS
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.rules import StageRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.lineages.background import is_taken
from fleetledger.coordinator.topics.lineages.capacity import fitting
from fleetledger.coordinator.topics.stages.name_checks import usable
from fleetledger.coordinator.topics.stages.rules import Stages
from fleetledger.schemas.class_names import fault_of
from fleetledger.schemas.values import ClassName, DeviceId

MAX_STAGE_CLASSES = 1000


class Opening:
    """Decides whether devices' reports open the next stage."""

    def __init__(self, rules: StageRules, state: State, stages: Stages) -> None:
        self._rules = rules
        self._state = state
        self._stages = stages
        self._looked_size = -1

    def due(self, now_ns: int) -> Decision:
        """Open the next stage if the reports say so."""
        if self._rules.open != "reports" or not self._due(now_ns):
            return Decision()
        if self._looked_size == self._state.size:
            return Decision()  # the state alone decides it, and nothing has changed
        self._looked_size = self._state.size
        naming = {name: new for name in self._state.devices.admitted if (new := self._new(name))}
        doubting = [
            name
            for name in self._state.devices.admitted
            if self._doubts(name) and name not in naming
        ]
        needed = self._needed()
        if not naming or len(naming) + len(doubting) < needed:
            return Decision()
        names = self._fitting(naming.values())
        names = tuple(sorted({*names, *self._stages.lacking()})) if names else ()
        if not names:
            return Decision()
        reason = _reason(naming, doubting, needed)
        return self._stages.open(names, actor=COORDINATOR, reason=reason)

    def _due(self, now_ns: int) -> bool:
        state = self._state
        stage = state.stages.by_number.get(state.stages.current or 0)
        if state.lineages.current is None or (stage is not None and stage.closed_index is None):
            return False
        last = state.stages.last_report_ns
        return last is not None and now_ns - last >= self._rules.settle_seconds * NANOSECONDS

    def _new(self, device: DeviceId) -> tuple[ClassName, ...]:
        state = self._state
        return tuple(
            name
            for name in state.stages.reports_of(device).named
            if not state.classes.knows(name) and not is_taken(state, name) and not fault_of(name)
        )

    def _doubts(self, device: DeviceId) -> bool:
        """Return whether a device has doubted images shortly before the newest report."""
        doubts, last = self._state.stages.reports_of(device).doubts, self._state.stages
        if doubts is None or last.last_report_ns is None:
            return False
        within = self._rules.reports_within_seconds
        within = doubts.within_seconds if within is None else within
        return last.last_report_ns - doubts.time_ns <= within * NANOSECONDS

    def _needed(self) -> int:
        quorum = self._rules.reports_quorum
        if isinstance(quorum, int):
            return quorum
        return max(1, math.ceil(quorum * self._stages.invited()))

    def _fitting(self, reported: Iterable[tuple[ClassName, ...]]) -> tuple[ClassName, ...]:
        """Return the names to open, in the order in which they get their indices."""
        counts = Counter(name for names in reported for name in names)
        ordered = sorted(counts, key=lambda name: (-counts[name], name))
        chosen = usable(self._state, ordered)
        return tuple(sorted(fitting(self._state, chosen)[:MAX_STAGE_CLASSES]))


def _reason(
    naming: dict[DeviceId, tuple[ClassName, ...]], doubting: list[DeviceId], needed: int
) -> str:
    told = [f"{device} (class folders {some(names)})" for device, names in naming.items()]
    told += [f"{device} (unsure about new images)" for device in doubting]
    number = f"{len(told)} device{'s' if len(told) > 1 else ''}"
    return f"reports of {number}, {needed} needed: {some(told)}"
