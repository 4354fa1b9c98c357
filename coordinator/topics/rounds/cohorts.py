"""Cohorts: which devices are there and able, and which of them a round asks."""

from __future__ import annotations

import hashlib
import math

from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.devices.state import Device
from fleetledger.coordinator.topics.rounds.budget import affords
from fleetledger.coordinator.topics.rounds.phases import Due
from fleetledger.coordinator.topics.stages.rules import CanLearn
from fleetledger.schemas.values import DeviceId

Devices = tuple[DeviceId, ...]


class Cohorts:
    """Draws the devices of a round."""

    def __init__(self, rules: RoundRules, state: State, live: Live, can_learn: CanLearn) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._can_learn = can_learn

    def draw(self, due: Due, number: int) -> tuple[Devices, Devices]:
        """Return who is asked to carry a phase out, and who to look meanwhile.

        A later phase asks those whose answers counted in the phase before it, also who is away.
        """
        if due.follows is not None:
            return tuple(sorted(due.follows.answers)), ()
        able = self.able()
        cohort = self._drawn(able, number)
        looks = self._state.lineages.trained.observes and due.begins_round
        return cohort, tuple(sorted(set(able).difference(cohort))) if looks else ()

    def free(self, number: int, now_ns: int) -> Devices:
        """Return who is asked next in an asynchronous round: so many that all places are taken.

        A device has a place while it is here and trains no longer than a round may take.
        """
        rounds, able = self._state.rounds, self.able()
        since_ns = now_ns - round(self._rules.deadline_seconds * NANOSECONDS)
        taken = sum(
            order.asked_ns > since_ns and self._live.seen(device).boot is not None
            for device, order in rounds.standing.items()
        )
        places = self._wanted(able) - taken
        if places <= 0:
            return ()
        busy = rounds.standing.keys() | rounds.waiting.keys()
        current = rounds.by_number.get(number)
        if current is not None:
            busy |= current.answers.keys()
        free = [n for n in able if n not in busy and number not in rounds.of(n).answers]
        return self._first(free, places, number)

    def able(self) -> list[DeviceId]:
        """Return the devices that are there and can train, but for those that judge an adapter."""
        network, able = self._state.lineages.trained, []
        for device, known in self._training.items():
            if self._live.seen(device).boot is None:
                continue
            if known.doubled is not None:
                continue  # what it answers would wait for the operator
            if not affords(self._state, device):
                continue
            if network.adapts is not None and network.adapts.judges.has(device):
                continue
            able.append(device)
        return able

    def has_come(self, since: int, *, but: frozenset[DeviceId] = frozenset()) -> Devices:
        """Return who can train and has come since the ledger had so many entries."""
        live = self._live.devices
        come = {n for n, d in live.items() if d.boot is not None and d.since_size > since}
        return tuple(n for n in self.able() if n in come and n not in but) if come else ()

    def have_spent(self) -> bool:
        """Return whether devices can train, and all of them have spent their budget of privacy."""
        able = self._training
        return bool(able) and not any(affords(self._state, device) for device in able)

    def gathers(self, now_ns: int) -> bool:
        """Whether devices that can train may still come back after a start of the coordinator."""
        assert self._live.since_ns is not None
        if (now_ns - self._live.since_ns) / NANOSECONDS >= self._rules.gather_seconds:
            return False
        return any(
            known.led and self._live.seen(device).boot is None
            for device, known in self._training.items()
        )

    def _drawn(self, able: list[DeviceId], number: int) -> Devices:
        return self._first(able, self._wanted(able), number)

    def _wanted(self, able: list[DeviceId]) -> int:
        asked = self._rules.cohort
        return asked if isinstance(asked, int) else max(1, math.ceil(asked * len(able)))

    def _first(self, devices: list[DeviceId], wanted: int, number: int) -> Devices:
        """Return so many of the devices, in the order of the round's hash."""
        if wanted >= len(devices):
            return tuple(sorted(devices))
        order = sorted(devices, key=lambda device: _draw(self._rules.seed, number, device))
        return tuple(sorted(order[:wanted]))

    @property
    def _training(self) -> dict[DeviceId, Device]:
        """The devices that the network's method can be trained on, whether they are there or not.

        Those of a kind share one object, and a method is asked once for each kind.
        """
        network, answers = self._state.lineages.trained, dict[int, bool]()
        found = {}
        for device, known in self._state.devices.admitted.items():
            capabilities = known.capabilities
            if capabilities is None:
                continue
            kind = id(capabilities)
            if kind not in answers:
                answers[kind] = self._can_learn(capabilities, network.method, network.requires)
            if answers[kind]:
                found[device] = known
        return found


def _draw(seed: int, number: int, device: DeviceId) -> bytes:
    return hashlib.sha256(f"{seed}/{number}/{device}".encode()).digest()
