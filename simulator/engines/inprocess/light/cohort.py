"""A round's cohort, trained by the method's device half one after the other, or in stacks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from coordinator.core.assigning import round_assignment
from coordinator.core.entries import RoundOpened
from device_agent.training import Session, order_of
from learning.errors import LearningError
from methods.registry import load_training_device
from methods.training_half import Answer, Begun, Order
from schemas.errors import FleetledgerError
from schemas.values import DeviceId
from simulator.engines.inprocess.light.ground import Ground
from simulator.engines.inprocess.light.holdings import Rows
from simulator.errors import EngineError
from simulator.virtual.training import carry_out, carry_out_one, number_at_once


@dataclass(frozen=True)
class Declined:
    """There is no answer: no data, or a reason why it could not be trained."""

    reason: str = ""


class Trained(NamedTuple):
    """What came of one device."""

    device: DeviceId
    outcome: Answer | Declined


class Cohort:
    """Trains devices for one round; what they remember is in the ground's memories."""

    def __init__(self, ground: Ground, opened: RoundOpened, first: DeviceId) -> None:
        coordinator = ground.coordinator
        self.assignment = round_assignment(coordinator.state, opened)
        self._ground = ground
        self._half = load_training_device(self.assignment.method)
        self._own = self._half.read_assignment(self.assignment.settings)
        order = self._order = order_of(self.assignment, coordinator.blobs.get, first)
        self._rows = Rows.of(self._order.round, ground.holdings.class_names)
        self._order_fields = dict(vars(order))

    def train(self, devices: Sequence[DeviceId]) -> Iterator[Trained]:
        """Yield what comes of each device, in order.

        Raises `EngineError` for what no later try would make better.
        """
        if self._ground.hall.engine == "loop":
            yield from map(self._alone, devices)
            return
        waiting = iter(devices)
        at_once = number_at_once(self._order, self._ground.hall)
        while together := list(islice(waiting, at_once)):
            yield from self._together(together)

    def _alone(self, device: DeviceId) -> Trained:
        began = time.perf_counter()
        session = self._session(device)
        outcome: Answer | Declined = Declined()
        if session is not None:
            outcome = _outcome(*carry_out_one(session, self._ground.hall))
        self._spent(device, time.perf_counter() - began)
        return Trained(device, outcome)

    def _together(self, devices: Sequence[DeviceId]) -> Iterator[Trained]:
        began = time.perf_counter()
        sessions = {device: self._session(device) for device in devices}
        begun = {one: session for one, session in sessions.items() if session is not None}
        ended = carry_out(begun, self._ground.hall)
        outcomes = [
            Trained(device, _outcome(*ended[device]) if device in ended else Declined())
            for device in devices
        ]
        share = (time.perf_counter() - began) / len(devices)
        for trained in outcomes:
            self._spent(trained.device, share)
            yield trained

    def _session(self, device: DeviceId) -> Session | None:
        data = self._ground.holdings.data(device, self._rows)
        if data is None:
            return None
        order, memory = self._order_of(device), self._ground.memories.read(device)
        try:
            begun: Begun | None = self._half.begin(
                self._own, order, data, memory, self._ground.pictures
            )
        except (FleetledgerError, LearningError) as error:
            raise EngineError(f"{device}: {error}") from error
        return None if begun is None else Session(self._half, self._own, begun)

    def _order_of(self, device: DeviceId) -> Order:
        return Order(**{**self._order_fields, "device": device})

    def _spent(self, device: DeviceId, seconds: float) -> None:
        self._ground.stopwatch.spent("training", seconds)
        self._ground.spent(device, seconds)


def _outcome(session: Session, trained: object) -> Answer | Declined:
    try:
        return session.answer(trained)
    except (FleetledgerError, LearningError) as error:  # training left the numbers
        return Declined(str(error))
