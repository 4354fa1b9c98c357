"""Programs beside the engine that train devices, too: `engine.workers` of them.

They get lots of devices with their data, and give back what is said of every answer. Payloads stay
where they were made: each program has a sum of its own, and sums are exact, so at the end of a
round they are joined to what one process would have added. The engine trains lots itself while
nobody else has time, and hands on everything in the order of the cohort.

All of them compute on one thread: then it does not matter who trains whom.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from methods import __path__ as method_folders
from methods import registry
from methods.training_half import LocalData, Summing
from schemas.values import DeviceId
from simulator.engines.inprocess.light.cohort import Member, Place, RoundTask, Stock
from simulator.engines.inprocess.light.lots import Adding, Done, Plain, plain, read_plain
from simulator.engines.inprocess.light.programs import Program
from simulator.errors import EngineError
from simulator.virtual.stopwatch import Stopwatch
from simulator.virtual.training import torch_device

_PROGRAM = "simulator.engines.inprocess.light.worker_program"
_LOT_SECONDS = 0.003
"""That a lot of devices takes: enough for what handing it over costs."""
_LARGEST_LOT = 64
_LOTS_AT_ONCE = 4
"""That a program has, so that it need not wait while this one writes to the disk."""
_LONG_SECONDS = 0.05
"""From here on a program gets one lot at a time: the last to finish is waited for."""


_KEPT_BYTES = 256 << 20
"""Of data that a program keeps from round to round; what is above is sent again."""


@dataclass(frozen=True)
class Setting:
    """The first work of a program; nothing comes back but that it is there."""

    place: Place
    methods: tuple[str, ...]
    method_folders: tuple[str, ...]
    """What this process knows of methods, beside the package's own."""


@dataclass(frozen=True, eq=False)
class Lot:
    """Devices to be trained."""

    devices: Sequence[tuple[DeviceId, Path | None]]
    """With the file of what each remembers."""
    data: Mapping[DeviceId, LocalData | None]
    """Of those whose data the program does not have."""
    task: RoundTask | None
    """With the first lot of a round."""
    keeps: bool
    """Whether the data are to be kept for later rounds."""
    forgets: bool
    """Whether what was kept is none of the devices' data any more."""


@dataclass(frozen=True)
class Carried:
    """What came of a lot."""

    done: Sequence[Plain]
    seconds: float


@dataclass(frozen=True)
class AskSum:
    """What was added in this round is wanted."""


@dataclass(frozen=True)
class Failed:
    """What no later try would make better."""

    text: str


Work = Setting | Lot | AskSum


class Worker:
    """What a program does."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._adding: Adding | None = None
        self._kept: dict[DeviceId, LocalData | None] = {}

    def do(self, work: Work) -> Carried | Failed | Any:  # noqa: ANN401 - each sum has its own
        """Return what comes of a work."""
        match work:
            case Setting():
                self._settle(work)
                return None
            case Lot():
                try:
                    return self._carry_out(work)
                except EngineError as error:
                    return Failed(str(error))
            case AskSum():
                assert self._adding is not None
                return self._adding.total.partial()

    def _settle(self, setting: Setting) -> None:
        import torch  # noqa: PLC0415 - the engine imports this module, too

        torch.set_num_threads(1)
        registry.METHODS = setting.methods
        method_folders[:] = setting.method_folders
        self._place = setting.place

    def _carry_out(self, lot: Lot) -> Carried:
        began = time.perf_counter()
        if lot.task is not None:
            assert self._place is not None
            self._adding = Adding(lot.task, self._place)
        assert self._adding is not None
        done = self._adding.carry_out(self._members(lot))
        return Carried([plain(one) for one in done], time.perf_counter() - began)

    def _members(self, lot: Lot) -> list[Member]:
        if lot.forgets:
            self._kept.clear()
        if lot.keeps:
            self._kept.update(lot.data)
        known = self._kept if lot.keeps else {**self._kept, **lot.data}
        return [Member(device, known[device], memory) for device, memory in lot.devices]


class Hand:
    """A program of a crew, and whose data it has."""

    def __init__(self) -> None:
        self.program = Program(_PROGRAM, "workers", _LOTS_AT_ONCE)
        self._kept: set[DeviceId] = set()
        self._bytes = 0
        self._version: Hashable = None

    def lot(self, devices: Sequence[DeviceId], stock: Stock, task: RoundTask | None) -> Lot:
        """Return a lot with the data that the program does not have."""
        forgets = stock.version != self._version
        if forgets:
            self._kept, self._bytes, self._version = set(), 0, stock.version
        data = {device: stock.data(device) for device in devices if device not in self._kept}
        keeps = self._bytes < _KEPT_BYTES
        if keeps:
            self._kept.update(data)
            self._bytes += sum(found.inputs.nbytes for found in data.values() if found)
        remembered = [(device, stock.memory(device)) for device in devices]
        return Lot(remembered, data, task, keeps, forgets)


class Crew:
    """The programs of a run."""

    def __init__(self, place: Place, size: int) -> None:
        """Start them; raise `EngineError` where devices are not trained on the processor."""
        import torch  # noqa: PLC0415 - needs torch

        where = torch_device(place.hall.device)
        if where != "cpu":
            raise EngineError(
                f"engine.workers: {size} beside a GPU, where devices are trained ({where}); set "
                "engine.device to 'cpu', or leave workers out"
            )
        self.place = place
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.hands = [Hand() for _ in range(size)]
        known = registry.METHODS, tuple(method_folders)
        for hand in self.hands:
            hand.program.send([pickle.dumps(Setting(place, *known))])

    def wait(self) -> None:
        """Wait until all of them are there; raise `EngineError` if one is not."""
        for hand in self.hands:
            hand.program.receive()

    def close(self) -> None:
        """End them."""
        import torch  # noqa: PLC0415 - needs torch

        for hand in self.hands:
            hand.program.close()
        torch.set_num_threads(self._threads)


class AnsweredByCrew:
    """Trains with a crew; an `Answering`."""

    def __init__(self, task: RoundTask, stock: Stock, crew: Crew, stopwatch: Stopwatch) -> None:
        self._task = task
        self._stock = stock
        self._stopwatch = stopwatch
        self._crew = crew
        self._adding = Adding(task, crew.place)
        self._busy: set[Hand] = set()
        """Those that know the task, and have added answers."""
        self._waiting: deque[DeviceId] = deque()
        self._lots: deque[_Given | Sequence[Done]] = deque()
        """In the order of the cohort: what was given to others, and what was done here."""
        self._seconds = _LOT_SECONDS
        """That a device took in the newest lot."""

    def begin(self, devices: Sequence[DeviceId]) -> None:
        """Take the devices in, and give the programs the first of them."""
        self._waiting.extend(devices)
        self._deal()

    def answers(self) -> Iterator[Sequence[Done]]:
        """Yield what comes of the devices, lot by lot."""
        while True:
            self._deal()
            if self._is_ready():
                yield self._next()
            elif lot := self._lot():
                self._lots.append(self._done_here(lot))
            elif self._lots:
                yield self._next()
            else:
                return

    def total(self) -> Summing:
        """Return the sum of what was added here and by the programs."""
        for hand in self._busy:
            hand.program.send([pickle.dumps(AskSum())])
        for hand in self._busy:
            self._adding.total.join(_received(hand.program))
        self._busy.clear()
        return self._adding.total

    def _deal(self) -> None:
        """Give programs that have time something to do."""
        at_once = 1 if self._seconds > _LONG_SECONDS else _LOTS_AT_ONCE
        for _ in range(at_once):
            for hand in self._crew.hands:
                if hand.program.works < at_once and (devices := self._lot()):
                    task = None if hand in self._busy else self._task
                    lot = hand.lot(devices, self._stock, task)
                    hand.program.send([pickle.dumps(lot, pickle.HIGHEST_PROTOCOL)])
                    self._busy.add(hand)
                    self._lots.append(_Given(hand.program, devices))

    def _lot(self) -> list[DeviceId]:
        """Take the next lot; towards the end they are smaller, so that all end together."""
        size = int(_LOT_SECONDS / max(self._seconds, _LOT_SECONDS / _LARGEST_LOT))
        size = min(size, len(self._waiting) // (2 * _LOTS_AT_ONCE * len(self._crew.hands)))
        return [self._waiting.popleft() for _ in range(min(max(1, size), len(self._waiting)))]

    def _done_here(self, devices: Sequence[DeviceId]) -> Sequence[Done]:
        began = time.perf_counter()
        done = self._adding.carry_out(map(self._stock.member, devices))
        spent = time.perf_counter() - began
        self._stopwatch.spent("training", spent)
        self._seconds = spent / len(devices)
        return done

    def _is_ready(self) -> bool:
        if not self._lots:
            return False
        lot = self._lots[0]
        return not isinstance(lot, _Given) or lot.program.is_ready

    def _next(self) -> Sequence[Done]:
        lot = self._lots.popleft()
        if not isinstance(lot, _Given):
            return lot
        carried: Carried = _received(lot.program)
        self._seconds = carried.seconds / len(lot.devices)
        return [read_plain(*one) for one in zip(lot.devices, carried.done, strict=True)]


class _Given(NamedTuple):
    """A lot that a program has."""

    program: Program
    devices: Sequence[DeviceId]


def _received(program: Program) -> Any:  # noqa: ANN401 - what `Worker.do` returns
    """Return what a program answers; raise the `EngineError` that it met."""
    answer = pickle.loads(program.receive())  # noqa: S301 - from our own program
    if isinstance(answer, Failed):
        raise EngineError(answer.text)
    return answer
