"""The coordinator of light agents: the real core, ledger and workers, without a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from fleetledger.coordinator.assembly import open_local
from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.requests import AnswerOperator, Request, SendToDevice
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import (
    AverageRound,
    ExportHead,
    FreezeNetwork,
    PackImported,
    PrepareAdapter,
    SolveHead,
    SumCohort,
)
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.program.operator import CommandAnswer
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.message import Message
from fleetledger.schemas.receipts import Receipt, Refused
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.inbox import MemoryInbox
from fleetledger.simulator.virtual.seeds import seeded_noise
from fleetledger.simulator.virtual.stopwatch import Stopwatch

Average = Callable[[AverageRound], Finished]


class LightCoordinator:
    """A coordinator that lives in `home`; what it would tell devices, nobody hears."""

    def __init__(self, home: Path, clock: VirtualClock, boot: BootId, stopwatch: Stopwatch) -> None:
        local = open_local(home, clock.readings, lambda settings: settings.rules)
        self.engine, self.blobs, self.maker = local.engine, local.blobs, local.maker
        self.maker.networks.draw_seed = lambda opened: seeded_noise(opened.seed, "coordinator")
        self.fleet = local.settings.fleet
        self.average: Average | None = None
        """Who averages a round, since answers are not kept."""
        self.on_receipt: Callable[[DeviceId, Receipt], None] = lambda _device, _receipt: None
        """Told what devices are answered that wait for it."""
        self.on_proxy: Callable[[Message], None] = lambda _body: None
        """Told what the proxy is sent."""
        self._rules = local.rules
        self._clock = clock
        self._stopwatch = stopwatch
        self._inbox = MemoryInbox(lambda: None, boot)

    @property
    def state(self) -> State:
        """What the ledger says."""
        return self.engine.core.state

    @property
    def live(self) -> Live:
        """What the coordinator knows only while it runs."""
        return self.engine.core.live

    def command(self, command: Command) -> None:
        """Carry a command out; raise `EngineError` if it is refused."""
        self.commands([command])

    def commands(self, commands: Sequence[Command]) -> None:
        """Carry commands out together; raise `EngineError` if one is refused."""
        tickets = {self._inbox.submit(command): command for command in commands}
        self.process([inputs.OperatorCommand(*item) for item in tickets.items()])
        for ticket, command in tickets.items():
            answer = self._inbox.answer_to(ticket)
            assert answer is not None
            if not answer.done:
                raise EngineError(f"{command.verb}: {answer.text}")

    def decide_due(self) -> bool:
        """Let the rules see that time has passed; return whether it led to anything."""
        return self.process([inputs.Tick()])

    def process(
        self,
        happenings: Iterable[inputs.Input | inputs.AnswersStored],
        pruned: Mapping[Digest, int] | None = None,
        small_blobs: Mapping[Digest, bytes] | None = None,
    ) -> bool:
        """Commit a group, and what came of it; return whether it led to entries or requests.

        `pruned` are payloads, with their sizes, that were added to a sum and not kept;
        `small_blobs` those that the ledger keeps. Both may be filled while happenings are drawn.
        Raises `EngineError` where a device is refused.
        """
        before = self.engine.ledger.size
        requests = self.engine.process(happenings, small_blobs, pruned)
        moved = bool(requests) or self.engine.ledger.size > before
        waiting = deque(filter(_is_heard, requests))
        while waiting:
            finished = self._carry_out(waiting.popleft())
            if finished is not None:
                # What follows from it at once is committed with it.
                group = [finished.happening, inputs.Tick()]
                waiting.extend(filter(_is_heard, self.engine.process(group, finished.small_blobs)))
        return moved

    def next_due(self) -> float | None:
        """Return when time alone may change what the rules decide; None for never."""
        moment = next_due(self._rules, self.state, self.live, self._clock.time_ns())
        return None if moment is None else self._clock.at(moment)

    def close(self) -> None:
        """Close the ledger."""
        self.engine.close()

    def _carry_out(self, request: Request) -> Finished | None:
        match request:
            case AverageRound():
                assert self.average is not None
                with self._stopwatch.phase("solve"):
                    return self.average(request)
            case SolveHead() | PrepareAdapter() | SumCohort():
                with self._stopwatch.phase("solve"):
                    return self.maker.make(request)
            case ExportHead() | FreezeNetwork() | PackImported():
                with self._stopwatch.phase("export"):
                    return self.maker.make(request)
            case AnswerOperator(ticket, done, text):
                self._inbox.answer(ticket, CommandAnswer(done, text))
            case SendToDevice(device, _, body) if device == PROXY:
                self.on_proxy(body)
            case SendToDevice(device, _, Receipt(answer=Refused(reason=reason))):
                raise EngineError(f"{device}: {reason}")
            case SendToDevice(device, _, Receipt() as receipt):
                self.on_receipt(device, receipt)
            case _:
                pass  # payloads to be deleted that nobody kept
        return None


def _is_heard(request: Request) -> bool:
    """Whether somebody minds a request: of messages the proxy, and whoever waits for a receipt."""
    if not isinstance(request, SendToDevice):
        return True
    return request.leaf == "rcpt" or request.device == PROXY
