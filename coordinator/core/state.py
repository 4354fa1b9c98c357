"""The coordinator's state: a part for each topic, a fold of the ledger and nothing else.

Here all topics are listed, in the order in which their parts take an entry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from fleetledger.coordinator.core.done_commands import DONE, DoneState
from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Change, Kind, LedgerTopic
from fleetledger.coordinator.topics.classes.entries import CLASSES
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.coordinator.topics.clock.entries import CLOCK
from fleetledger.coordinator.topics.clock.state import ClockState
from fleetledger.coordinator.topics.cohorts.entries import COHORTS
from fleetledger.coordinator.topics.cohorts.state import CohortsState
from fleetledger.coordinator.topics.contributions.accepted_answers import AcceptedAnswers
from fleetledger.coordinator.topics.contributions.entries import CONTRIBUTIONS
from fleetledger.coordinator.topics.contributions.state import ContributionsState
from fleetledger.coordinator.topics.daily.entries import DAILY
from fleetledger.coordinator.topics.daily.state import DailyState
from fleetledger.coordinator.topics.devices.entries import DEVICES
from fleetledger.coordinator.topics.devices.state import DevicesState
from fleetledger.coordinator.topics.keys.entries import KEYS
from fleetledger.coordinator.topics.keys.state import KeysState
from fleetledger.coordinator.topics.lineages.kinds import LINEAGES
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.coordinator.topics.models.kinds import MODELS
from fleetledger.coordinator.topics.models.state import ModelsState
from fleetledger.coordinator.topics.proxy.entries import PROXY
from fleetledger.coordinator.topics.proxy.state import OldModelsState
from fleetledger.coordinator.topics.releases.entries import RELEASES
from fleetledger.coordinator.topics.releases.state import Trust
from fleetledger.coordinator.topics.rollouts.kinds import ROLLOUTS
from fleetledger.coordinator.topics.rollouts.state import RolloutsState
from fleetledger.coordinator.topics.rounds.kinds import ROUNDS
from fleetledger.coordinator.topics.rounds.state import RoundsState
from fleetledger.coordinator.topics.stages.entries import STAGES
from fleetledger.coordinator.topics.stages.state import StagesState
from fleetledger.schemas.values import ClassName, DeviceId

TOPICS: tuple[LedgerTopic[Any], ...] = (
    CLOCK,
    DEVICES,
    KEYS,
    LINEAGES,
    CLASSES,
    STAGES,
    COHORTS,
    CONTRIBUTIONS,
    ROUNDS,
    PROXY,
    MODELS,
    RELEASES,
    ROLLOUTS,
    DAILY,
    DONE,
)
KINDS: dict[str, Kind[Any, Any]] = {
    kind.body.kind: kind for topic in TOPICS for kind in topic.kinds
}
"""Every kind of entry, by the name that the ledger has for it."""
ENTRY_KINDS: dict[str, type[EntryBody]] = {name: kind.body for name, kind in KINDS.items()}


def read_entry(kind: str, body: dict[str, Any]) -> EntryBody:
    """Return the body of a stored entry; raise `KeyError` for a kind this program does not know."""
    return ENTRY_KINDS[kind].model_validate(body)


@dataclass
class State:
    """Everything that the rules decide on.

    One that is kept is `unread`: each part is loaded when it is first asked for.
    """

    size: int = field(default_factory=int)
    """Number of entries applied; the index of the next one."""
    last_ns: int = field(default_factory=int)
    """When the last of them was made, by the calendar that is right after it."""
    heard_ns: dict[DeviceId, int] = field(default_factory=dict)
    """When each device made its newest entry, by the same calendar."""
    clock: ClockState = field(default_factory=ClockState)
    devices: DevicesState = field(default_factory=DevicesState)
    keys: KeysState = field(init=False)
    lineages: LineagesState = field(default_factory=LineagesState)
    classes: ClassRegistry = field(default_factory=ClassRegistry)
    stages: StagesState = field(init=False)
    cohorts: CohortsState = field(default_factory=CohortsState)
    contributions: ContributionsState = field(init=False)
    rounds: RoundsState = field(init=False)
    proxy: OldModelsState = field(init=False)
    models: ModelsState = field(init=False)
    trust: Trust = field(init=False)
    """Root documents and releases."""
    rollouts: RolloutsState = field(init=False)
    daily: DailyState = field(default_factory=DailyState)
    done: DoneState = field(default_factory=DoneState)

    def __post_init__(self) -> None:
        self.keys = KeysState(self.devices)
        self.stages = StagesState(self.lineages)
        self.contributions = ContributionsState(self.lineages, self.classes)
        self.rounds = RoundsState(self.lineages, self.stages)
        self.proxy = OldModelsState(self.lineages, self.rounds)
        self.models = ModelsState(self.lineages, self.devices)
        self.trust = Trust(self.models)
        self.rollouts = RolloutsState(self.devices, self.keys, self.models, self.trust)
        self.listen()

    @classmethod
    def unread(cls, load: Callable[[State, str], object]) -> State:
        """Return a state whose parts `load` sets, each when it is first asked for."""
        state = object.__new__(cls)
        vars(state).update(_load=load)
        return state

    if not TYPE_CHECKING:  # to a checker of types all parts are there

        def __getattr__(self, name: str) -> object:
            """Return what is not there yet."""
            if name == "_changes":
                self.listen()
                return self._changes
            load = vars(self).get("_load")
            if load is None or name not in PARTS:
                raise AttributeError(f"a state has no {name}")
            return load(self, name)

    def listen(self) -> None:
        """Have every part follow its kinds of entry; whoever puts other parts in does it again."""
        for part in PARTS:
            getattr(self, part)  # before one is changed all are loaded
        found: dict[type[EntryBody], list[Change]] = defaultdict(list)
        for body, change in self._all():
            found[body].append(change)
        self._changes = dict(found)

    def apply(self, body: EntryBody, device: DeviceId | None = None, time_ns: int = 0) -> None:
        """Take in the next entry; its index is `size`, `device` made it, if a device did.

        The state is changed in place: a copy for every entry would cost as much as the fleet is
        large.
        """
        at, set_back_ns = EntryContext(self.size, device, time_ns), self.clock.set_back_ns
        for change in self._changes[type(body)]:
            change(body, at)
        by_ns = self.clock.set_back_ns - set_back_ns
        if device is not None:
            self.heard_ns[device] = time_ns
        if by_ns:
            self.heard_ns = {name: heard - by_ns for name, heard in self.heard_ns.items()}
        self.size += 1
        self.last_ns = time_ns - by_ns

    def take_answers(self, run: AcceptedAnswers, time_ns: int) -> None:
        """Take in answers to a round as `apply` takes in their entries one by one."""
        first, devices, likes = self.size, run.devices, run.likes
        run.give(self.contributions, first)
        self.rounds.take_answers(first, devices, run.payloads, likes)
        self.heard_ns.update(dict.fromkeys(devices, time_ns))
        self.size += len(devices)
        self.last_ns = time_ns

    def class_stages(self, rows: tuple[ClassName, ...]) -> tuple[int, ...]:
        """Return the stage that brought each row; of names for one class, the earliest counts."""
        first: dict[ClassName, int] = {}
        for number in sorted(self.stages.by_number):
            for name in self.stages.by_number[number].class_names:
                first.setdefault(self.classes.resolve(name), number)
        return tuple(first[self.classes.resolve(row)] for row in rows)

    def lacking(self, version: int) -> tuple[ClassName, ...]:
        """Return every name of the classes that a model of the fleet does not know, sorted.

        An imported model's classes are its maker's own.
        """
        model = self.models.by_version[version]
        if model.lineage is None:
            return ()
        classes, names = self.classes, model.solved.class_names
        known = {classes.resolve(name) for name in names if classes.knows(name)}
        return tuple(name for name, meaning in classes.resolution().items() if meaning not in known)

    def _all(self) -> Iterator[tuple[type[EntryBody], Change]]:
        """Give every topic its part, in the order of `TOPICS`; the types say which is whose."""
        yield from CLOCK.on(self.clock)
        yield from DEVICES.on(self.devices)
        yield from KEYS.on(self.keys)
        yield from LINEAGES.on(self.lineages)
        yield from CLASSES.on(self.classes)
        yield from STAGES.on(self.stages)
        yield from COHORTS.on(self.cohorts)
        yield from CONTRIBUTIONS.on(self.contributions)
        yield from ROUNDS.on(self.rounds)
        yield from PROXY.on(self.proxy)
        yield from MODELS.on(self.models)
        yield from RELEASES.on(self.trust)
        yield from ROLLOUTS.on(self.rollouts)
        yield from DAILY.on(self.daily)
        yield from DONE.on(self.done)


PARTS = tuple(item.name for item in fields(State))
"""Names of the parts, none of which is an attribute of the class."""
