"""The watch over a running agent: what keeps it from giving or getting, with its dates."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.device_agent.core.state import AgentState
from fleetledger.device_agent.program.worker import AgentWorker
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.problems import CERTIFICATE, PATIENCE_SECONDS, OpenProblem, ProblemBook
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.clock import Clock
from fleetledger.transport.errors import (
    BrokerLimitError,
    NotAuthorisedError,
    TlsError,
    TransportError,
)
from fleetledger.transport.transfer import Exchange

log = logging.getLogger("device_agent")


class ProblemWatch:
    """Looks at what the rules, the worker and the connections are at; for one thread."""

    def __init__(
        self,
        device: DeviceId,
        state: AgentState,
        worker: AgentWorker,
        exchange: Exchange,
        clock: Clock,
    ) -> None:
        self._device = device
        self._patience = PATIENCE_SECONDS
        self.book = ProblemBook()
        self.away = ""
        """Why there is no connection; empty where nothing was said."""
        self.limit = ""
        """Why the broker takes no block; empty where it does."""
        self.held = ""
        """Why nothing can be written down now; empty where it can."""
        self._state = state
        self._worker = worker
        self._exchange = exchange
        self._clock = clock
        self._happened: frozenset[str] = frozenset()
        self._moved = (0, clock.seconds())
        """Bytes that came over the connection of blocks, and when that last changed."""

    def note(self, text: str) -> None:
        """Log what went wrong, and keep it for `agent status`."""
        log.warning("%s", text, extra=self._about("agent.problem"))
        problem = OpenProblem("device", text)
        self.book.happened(problem, self._clock.seconds(), self._clock.time_ns())

    def connected(self) -> None:
        """Forget what was wrong with the connection before this one."""
        self.away = self.limit = ""

    def note_connection(self, error: TransportError) -> None:
        """Log what is wrong with the connection; while there is none, it is why."""
        if isinstance(error, BrokerLimitError):
            self.limit = str(error)
        elif self._state.presence.connected:
            self.note(str(error))
            return
        else:
            self.away = str(error)
            # A broker that refuses us goes on to; one that is away may come back by itself.
            refused = isinstance(error, TlsError | NotAuthorisedError)
            self._patience = 0.0 if refused else PATIENCE_SECONDS
        log.warning("%s", error, extra=self._about("agent.problem"))

    def check(self, besides: Iterable[OpenProblem] = ()) -> None:
        """Note what is wrong now, `besides` with it, and log what is over."""
        state, now, time_ns = self._state, self._clock.seconds(), self._clock.time_ns()
        for told in state.told.happened:
            if told.text not in self._happened:
                self.book.happened(OpenProblem(told.about, told.text), now, time_ns)
        self._happened = frozenset(told.text for told in state.told.happened)
        new, over = self.book.update([*self._open(now), *besides], now, time_ns)
        for problem in new:
            if problem.hinders or problem.about == CERTIFICATE:
                log.warning("%s", problem.text, extra=self._about("agent.hindered"))
        for problem in over:
            log.info("is over: %s", problem.text, extra=self._about("agent.recovered"))

    def _open(self, now: float) -> Iterator[OpenProblem]:
        state, progress = self._state, self._worker.progress
        if not state.presence.connected:
            text = self.away or "broker: there is no connection yet"
            yield OpenProblem("broker", text, True, self._patience, "away")
        if self.limit:
            yield OpenProblem("broker", self.limit, hinders=True, key="limit")
        if self.held:
            yield OpenProblem("database", self.held, hinders=True, key="held")
        moved = self._exchange.traffic().bytes_down
        if moved != self._moved[0]:
            self._moved = (moved, now)
        moving = now - self._moved[1] < PATIENCE_SECONDS
        yield from standing_problems(state, moving=moving)
        fetching = state.files.fetching
        if fetching is not None and state.presence.served and not moving:
            text = f"file {fetching.digest.short}: the coordinator sends none of it"
            yield OpenProblem("files", text, True, PATIENCE_SECONDS, "stalled")
        hangs = "" if progress is None else progress.hangs()
        if hangs:
            yield OpenProblem("work", hangs, hinders=True, key="hangs")

    def _about(self, event: str) -> dict[str, object]:
        return about(event, device=self._device)
