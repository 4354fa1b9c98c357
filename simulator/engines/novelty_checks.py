"""What devices saw that look for new tasks by themselves, as the ledger tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.schemas.rounds import TRAIN, Observation
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.records import NoveltyCheckRecord


@dataclass
class NoveltyLog:
    """Follows a ledger from its beginning."""

    _counted: Counter[int] = field(init=False, default_factory=Counter)
    _places: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    """Stage of each round, and its number in the stage."""
    _found: list[tuple[int, NoveltyCheckRecord]] = field(init=False, default_factory=list)

    def apply(self, body: EntryBody, device: DeviceId | None) -> None:
        """Take in the next entry; a look of a round that began before the log is left out."""
        if isinstance(body, RoundOpened) and body.phase == TRAIN:
            self._counted[body.stage] += 1
            self._places[body.number] = (body.stage, self._counted[body.stage])
            return
        number, seen = _observation(body)
        if seen is None or number not in self._places or device is None:
            return
        stage, place = self._places[number]
        self._found.append(
            (stage, NoveltyCheckRecord(device=device, round=place, **seen.model_dump()))
        )

    def of(self, stages: Collection[int]) -> tuple[NoveltyCheckRecord, ...]:
        """Return the looks of some stages of the ledger, by round and device.

        In which order answers of a round come is a matter of the clock.
        """
        found = [(stage, look) for stage, look in self._found if stage in stages]
        found.sort(key=lambda item: (item[0], item[1].round, item[1].device))
        return tuple(look for _, look in found)


def _observation(body: EntryBody) -> tuple[int | None, Observation | None]:
    if isinstance(body, NothingReported):
        return body.round, body.observation
    if isinstance(body, ContributionAccepted) and body.answer is not None:
        return body.round, body.answer.observation
    return None, None
