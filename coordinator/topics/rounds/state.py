"""What the state knows of rounds, and of the network that they train."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.topics.lineages.state import LineagesState, Span
from fleetledger.coordinator.topics.rounds import entries
from fleetledger.coordinator.topics.stages.state import StagesState
from fleetledger.runtime.command_report import Column
from fleetledger.schemas.contributions import Part
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import ClassName, DeviceId, Digest


@dataclass
class Taint:
    """What is known of means and retracted answers."""

    lineages: LineagesState = field(repr=False, compare=False)
    """A part of the state before this one, to read from."""
    means: list[int] = field(default_factory=list)
    """Entries of averaged rounds, in their order."""
    marks: list[tuple[DeviceId, int]] = field(default_factory=list)
    """Devices whose answers were retracted, with the entry of the first mean of them."""

    def descends(self, index: int, first: int) -> bool:
        """Whether what an entry records descends from the mean that entry `first` records."""
        return index >= first and self._span(index).index in self._descending_spans(first)

    def devices(self, index: int) -> tuple[DeviceId, ...]:
        """Return the devices of whose retracted answers an entry's model descends, sorted."""
        if not self.marks:
            return ()
        return tuple(sorted({name for name, first in self.marks if self.descends(index, first)}))

    def means_after(self, first: int) -> int:
        """Count the rounds from a mean on that descend from it, itself among them."""
        return sum(self.descends(index, first) for index in self.means)

    def _descending_spans(self, first: int) -> set[int]:
        found = {self._span(first).index}
        for span in self.lineages.spans:
            if span.parent in found and span.index > first:
                found.add(span.index)
        return found

    def _span(self, index: int) -> Span:
        return _last(span for span in self.lineages.spans if span.index <= index)


def _last(spans: Iterable[Span]) -> Span:
    *_, last = spans
    return last


@dataclass(frozen=True)
class AnsweredRound:
    """What a device answered to a round: by entry and payload; None for 'nothing'."""

    index: int
    payload: Digest | None


@dataclass
class DeviceRounds:
    """What one device was asked, and answered."""

    answers: dict[int, AnsweredRound] = field(default_factory=dict)
    """By number of the round."""
    averaged: dict[int, int] = field(default_factory=dict)
    """Rounds whose answer of this device is in a mean, with the entry of the mean."""
    order_action: int = 0
    """Index of the last entry that changed what this device alone is asked to do."""


@dataclass
class Round:
    """A cohort's training: open until it is closed, done when it is averaged or came to nothing."""

    opened: entries.RoundOpened
    opened_index: int
    opened_ns: int
    weights: Weights | None = None
    """The fleet's network as it was when the round was opened."""
    answers: dict[DeviceId, RoundAnswered] = field(default_factory=dict)
    """In time; in the order of the ledger."""
    masked: set[DeviceId] = field(default_factory=set)
    """Devices whose answer is behind masks in an open cohort, or in the sum of one."""
    nothing: set[DeviceId] = field(default_factory=set)
    """Devices without data."""
    unable: dict[DeviceId, str] = field(default_factory=dict)
    """Devices that could not train, or declined, with what they said."""
    looked: set[DeviceId] = field(default_factory=set)
    """Observers that have answered; they decide nothing."""
    closed: entries.RoundClosed | None = None
    ended_ns: int | None = None
    """When it was closed, or failed."""
    ended_index: int | None = None
    """Of the entry that says so."""
    averaged: bool = False
    failed: str | None = None
    """Why its answers could not be averaged."""
    left_out: list[RoundAnswered] = field(default_factory=list)
    """Answers that came for a later round and count in none."""

    @property
    def takes_more(self) -> bool:
        """Whether another answer counts in it, of an asynchronous round."""
        terms = self.opened.buffering
        return terms is not None and self.closed is None and len(self.answers) < terms.answers

    def asks_too(self, cohort: tuple[DeviceId, ...], observers: tuple[DeviceId, ...]) -> None:
        """Take in further devices of the cohort, and further observers."""
        opened = self.opened
        more = {"cohort": opened.cohort + cohort, "observers": opened.observers + observers}
        self.opened = opened.model_copy(update=more)
        for name in more:
            vars(self).pop(name, None)  # what is cached of the cohort so far

    @cached_property
    def cohort(self) -> frozenset[DeviceId]:
        """Devices that are asked to train."""
        return frozenset(self.opened.cohort)

    @cached_property
    def observers(self) -> frozenset[DeviceId]:
        """Devices that are asked only to look."""
        return frozenset(self.opened.observers)

    @property
    def heard(self) -> set[DeviceId]:
        """Devices that need not be waited for."""
        return {*self.answers, *self.masked, *self.nothing, *self.unable}

    @property
    def answered(self) -> int:
        """How many devices' answers are known, in sums of cohorts among them."""
        return sum(answer.members for answer in self.answers.values())

    @property
    def unheard(self) -> tuple[DeviceId, ...]:
        """Devices that were asked something and had not answered when it was closed."""
        missing = () if self.closed is None else self.closed.missing
        looking = (device for device in self.opened.observers if device not in self.looked)
        return (*missing, *looking)

    @property
    def done(self) -> bool:
        """Whether nothing more comes of it."""
        if self.closed is None:
            return False
        return self.averaged or self.failed is not None or not self.closed.counted

    @property
    def refused(self) -> dict[DeviceId, str]:
        """Of whom nothing came that could be used, with what was said of it."""
        told = {} if self.closed is None else self.closed.refused
        refused = {device: reason for reason, devices in told.items() for device in devices}
        if self.failed is not None:
            refused |= dict.fromkeys(self.answers, self.failed)
        return self.unable | refused


@dataclass
class SeenInRound:
    """What devices saw that looked at their images in a round, summed."""

    times: int = 0
    images: int = 0
    entropy: float = 0.0
    """Sum over images, in nats."""
    begins: list[DeviceId] = field(default_factory=list)
    """Devices that take their images for a new task."""

    def add(self, device: DeviceId, saw: Observation | None) -> None:
        """Take in what a device saw, where it looked."""
        if saw is not None:
            self.times, self.images = self.times + 1, self.images + saw.images
            self.entropy += saw.entropy * saw.images
            self.begins += [device] if saw.transition else []

    @property
    def text(self) -> str:
        """What they saw, in words; empty where none looked."""
        if not self.times:
            return ""
        told = f"entropy {self.entropy / self.images:.3f} on {count_of(self.times)}"
        begins = ", ".join(sorted(self.begins))
        return f"{told}; new task: {begins}" if begins else told


@dataclass
class RoundFacts:
    """A round of any lineage, as far as it came, in figures."""

    number: Annotated[int, Column("round")]
    stage: Annotated[int, Column("stage")]
    round_of_stage: Annotated[int, Column("of stage")]
    phase: Annotated[str, Column("phase", of="phase_told")]
    follows: int | None
    """The round whose answers a later phase goes on from."""
    opened_index: int
    opened_ns: int
    asked: Annotated[int, Column("asked")]
    looking: Annotated[int, Column("only looked", int, sparse=True, last=True)]
    """Devices that were asked only to look at their images."""
    weights_bytes: Annotated[int, Column("kB down/up", of="kilobytes", last=True)]
    """The weights that each device of the cohort was given."""
    state: Annotated[str, Column("state", of="state_told", last=True)] = "open"
    closed_index: int | None = None
    closed_ns: int | None = None
    counted: Annotated[int | None, Column("counted")] = None
    missing: Annotated[int | None, Column("missing")] = None
    staleness: Annotated[int | None, Column("oldest", sparse=True)] = None
    """Age in versions of the oldest weights that a counted answer of an asynchronous round began
    from."""
    reason: str | None = None
    averaged_index: int | None = None
    averaging_seconds: float | None = None
    samples: Annotated[int | None, Column("samples")] = None
    drift: Annotated[float | None, Column("drift", "{:.3f}".format)] = None
    """Mean distance of the answers from their mean, relative to the length of the step."""
    least_cosine: Annotated[float | None, Column("least cosine", "{:.2f}".format, sparse=True)] = (
        None
    )
    """Of an answer's move to the mean direction of the others, of rounds that are robust."""
    farthest: Annotated[str | None, Column("of", sparse=True)] = None
    """Device of that answer."""
    answers: int = 0
    """Late ones among them."""
    answers_bytes: int = 0
    """Of their payloads."""
    seen: Annotated[
        SeenInRound, Column("what they saw", attrgetter("text"), sparse=True, last=True)
    ] = field(default_factory=SeenInRound)

    @property
    def phase_told(self) -> str:
        """The phase, and the round whose answers it goes on from."""
        return self.phase if self.follows is None else f"{self.phase}, after {self.follows}"

    @property
    def kilobytes(self) -> str:
        """Size of the weights that each device was given, and the mean size of the answers."""
        up = f"{self.answers_bytes / self.answers / 1000:.0f}" if self.answers else "-"
        return f"{self.weights_bytes / 1000:.0f}/{up}"

    @property
    def state_told(self) -> str:
        """The state, with the reason where nothing came of the round."""
        bare = self.state not in {"came to nothing", "failed"}
        return self.state if bare else f"{self.state}: {self.reason}"

    @property
    def seconds(self) -> float | None:
        """From when it opened to when it closed."""
        return None if self.closed_ns is None else (self.closed_ns - self.opened_ns) / 1e9


@dataclass(frozen=True)
class Stopped:
    """That a stage asks for nothing more, by entry, and why."""

    index: int
    stage: int
    reason: str
    settings: Digest
    """Of the settings of rounds: with other ones it is tried again."""


@dataclass
class VoidRun:
    """Rounds of a stage that came to nothing, since the last one that brought it further."""

    rounds: list[Round] = field(default_factory=list)
    weighed: int = 0
    """How many of them, the oldest, count no more towards a stop: it was tried again since."""
    stopped: Stopped | None = None
    """Why nothing more is asked, while nothing is."""

    def went_on(self, current: Round) -> None:
        """Begin anew if a round gave what those of the run did not give.

        A round that begins again with its first phase, and gets as far as that, does not.
        """
        if all(current.opened.round_of_stage >= r.opened.round_of_stage for r in self.rounds):
            self.rounds.clear()
            self.weighed = 0


@dataclass(frozen=True)
class RoundAnswered:
    """One answer that counts if its round does."""

    index: int
    payload: Digest
    samples: int
    began: int = 0
    """The round that it answers, with whose weights it began."""
    staleness: int = 0
    """Versions by which these weights are old where it counts."""
    members: int = 1
    """Devices whose answers it is the sum of."""


@dataclass(frozen=True)
class StandingOrder:
    """Order of an asynchronous round that is neither answered nor over."""

    number: int
    """Of the round."""
    asked_ns: int


@dataclass(frozen=True)
class Weights:
    """The fleet's network as it is now."""

    offer: Offer
    class_names: tuple[ClassName, ...]
    """Rows of its head."""
    index: int
    """Of the entry that gave it: an import, or what a round gave."""
    extras: Mapping[str, Offer] = field(default_factory=dict)
    averaged: entries.WeightsAveraged | None = None
    averaged_ns: int | None = None

    @property
    def blobs(self) -> frozenset[Digest]:
        """The network and what goes with it."""
        return frozenset(offer.digest for offer in (self.offer, *self.extras.values()))

    def set_back(self, by_ns: int) -> Weights:
        """Return them with the time moved, as entries' times are set back."""
        if self.averaged_ns is None:
            return self
        return replace(self, averaged_ns=self.averaged_ns - by_ns)


@dataclass(frozen=True)
class AveragedWeights:
    """Weights that a round gave, and the entry that says so."""

    number: int
    index: int
    offer: Offer
    blobs: tuple[Digest, ...]
    """The weights and what goes with them."""
    answers: int
    """How many are in the mean."""


@dataclass
class RoundsState:
    """The rounds of the current lineage, and what they gave."""

    lineages: LineagesState = field(repr=False, compare=False)
    """Parts before this one, to read from."""
    stages: StagesState = field(repr=False, compare=False)
    by_number: dict[int, Round] = field(default_factory=dict)
    """Of the current lineage."""
    facts: dict[int, RoundFacts] = field(default_factory=dict)
    """Of every lineage, in ascending order."""
    by_device: dict[DeviceId, DeviceRounds] = field(default_factory=dict)
    """Of devices that were ever asked or answered."""
    void: VoidRun = field(default_factory=VoidRun)
    """Rounds of the newest stage that came to nothing, one after the other."""
    last_number: int = 0
    """The highest number of a round, of any lineage."""
    weights: Weights | None = None
    """The network, where the fleet trains one."""
    made: dict[int, AveragedWeights] = field(default_factory=dict)
    """What the rounds of the lineage gave, by number."""
    pruned: set[Digest] = field(default_factory=set)
    """What is kept no longer of what rounds gave."""
    former_made: dict[int, AveragedWeights] = field(default_factory=dict)
    """What rounds of earlier lineages gave, until it is kept no longer."""
    standing: dict[DeviceId, StandingOrder] = field(default_factory=dict)
    """Orders of asynchronous rounds; an answer to them counts in the round that is open then."""
    waiting: dict[DeviceId, RoundAnswered] = field(default_factory=dict)
    """Answers that count in the next asynchronous round; in the order of the ledger."""
    spent: dict[DeviceId, float] = field(default_factory=dict)
    """Of devices that gave answers with noise: the sum of 1 / z^2 over these, z its multiplier."""
    taint: Taint = field(init=False)
    """Which models descend from answers to rounds."""

    def __post_init__(self) -> None:
        self.taint = Taint(self.lineages)

    @property
    def current(self) -> Round | None:
        """The newest round of the lineage."""
        return self.by_number[max(self.by_number)] if self.by_number else None

    def of(self, device: DeviceId) -> DeviceRounds:
        """Return what a device was asked and answered, to read."""
        return self.by_device.get(device) or DeviceRounds()

    def asks(self, device: DeviceId) -> Round | None:
        """Return the round that a device has an order of, to train or to look; None without one."""
        standing = self.standing.get(device)
        if standing is not None:
            return self.by_number[standing.number]
        current = self.current
        if current is None or current.closed is not None:
            return None
        asked = device in current.cohort or device in current.observers
        answered = current.opened.number in self.of(device).answers
        return current if asked and not answered else None

    def counts(self, device: DeviceId, number: int) -> bool:
        """Return whether a device's answer to a round counts, if it comes now."""
        asked = self.by_number[number]
        if asked.opened.buffering is None:
            return asked.closed is None
        standing = self.standing.get(device)
        is_asked = standing is not None and standing.number == number
        return is_asked and asked.opened.stage == self.stages.open

    def staleness(self, began: int, number: int) -> int:
        """Return how many versions came between the openings of two rounds of the lineage."""
        return sum(began <= made < number for made in self.made)

    def spend(self, device: DeviceId) -> None:
        """Count what an answer to the network that leads spends of its device's privacy."""
        privacy = self.lineages.answer_privacy
        if privacy is not None and privacy.noise:
            self.spent[device] = self.spent.get(device, 0.0) + privacy.noise**-2

    def take(self, device: DeviceId, answer: RoundAnswered) -> None:
        """Take in an answer that counts: for the round that it answers, or that takes more."""
        asked, current = self.by_number[answer.began], self.current
        if asked.opened.buffering is None:
            asked.answers[device] = answer
            return
        self.standing.pop(device, None)
        if current is not None and current.takes_more and not self.waiting:
            current.answers[device] = answer
        else:
            self.waiting[device] = answer

    def take_answers(
        self,
        first: int,
        devices: Sequence[DeviceId],
        payloads: Sequence[Digest],
        likes: Sequence[Part],
    ) -> None:
        """Take in answers to an open round, from entry `first` on, that spend no privacy."""
        number = likes[0].key.part
        facts, answers = self.facts[number], self.by_number[number].answers
        samples = {id(like): sum(like.samples.values()) for like in likes}
        given = zip(devices, payloads, likes, strict=True)
        for index, (device, payload, like) in enumerate(given, first):
            self.by_device[device].answers[number] = AnsweredRound(index, payload)
            answers[device] = RoundAnswered(index, payload, samples[id(like)], number)
        facts.answers += len(devices)
        facts.answers_bytes += sum(like.payload_bytes for like in likes)

    def begun(self) -> tuple[entries.RoundOpened, ...]:
        """Return the asynchronous rounds whose weights standing orders and waiting answers need."""
        numbers = {order.number for order in self.standing.values()}
        numbers |= {answer.began for answer in self.waiting.values()}
        return tuple(self.by_number[number].opened for number in sorted(numbers))

    def begin_round(self, opened: Round) -> None:
        """Let a round be the newest one: it takes what waits, and ends orders that it cannot."""
        self.by_number[opened.opened.number] = opened
        ended = [n for n, one in self.standing.items() if not self._goes_on(one.number, opened)]
        for device in ended:
            del self.standing[device]
        for device, answer in tuple(self.waiting.items()):
            if not self._goes_on(answer.began, opened):
                opened.left_out.append(self.waiting.pop(device))
            elif opened.takes_more:
                opened.answers[device] = self.waiting.pop(device)

    def _goes_on(self, began: int, opened: Round) -> bool:
        """Return whether answers to a round count in a later one, with the same rows, too."""
        terms, then = opened.opened, self.by_number[began].opened
        rows = terms.class_names == then.class_names
        return terms.buffering is not None and terms.stage == then.stage and rows

    def nothing_in(self, numbers: Collection[int]) -> dict[DeviceId, int]:
        """Return who said to some rounds that there is nothing to give, with the newest entry."""
        found = {
            device: [
                known.answers[number].index
                for number in numbers
                if number in known.answers and known.answers[number].payload is None
            ]
            for device, known in self.by_device.items()
        }
        return {device: max(indices) for device, indices in found.items() if indices}

    def averaged_in(self, stage: int) -> int:
        """Count the rounds of a stage that gave a model."""
        return sum(item.averaged for item in self.by_number.values() if item.opened.stage == stage)

    def first_of(self, later: Round) -> Round:
        """Return the first phase of the round of which `later` is a phase; often itself."""
        while later.opened.follows is not None:
            later = self.by_number[later.opened.follows]
        return later

    def answers_in(self, index: int) -> int:
        """Count the answers in what an entry gave; none in first weights."""
        given = (*self.former_made.values(), *self.made.values())
        return next((made.answers for made in given if made.index == index), 0)

    def descending(self, size: int) -> tuple[DeviceId, ...]:
        """Return devices of whose retracted answers a model descends that is recorded next.

        `size` is that of the ledger.
        """
        return self.taint.devices(size) if self.lineages.current is not None else ()

    def begin_lineage(self, weights: Weights | None) -> None:
        """Begin anew with a network, or with none."""
        self.by_number.clear()
        self.void = VoidRun()
        self.former_made.update(self.made)
        self.made.clear()
        self.standing.clear()
        self.waiting.clear()
        self.weights = weights
