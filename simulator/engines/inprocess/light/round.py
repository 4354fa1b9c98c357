"""One round of light agents: answers are trained, summed, hashed, recorded, and dropped.

The order of things for an answer: its integers are added to the exact sum, its bytes are hashed,
what is said of it goes to the coordinator's core with others, and nothing of it is kept.
With the last group the round is closed and averaged from the sum.

A run that was killed in a round has its answers in the ledger and no longer in a sum. They are
trained again, from the memories before the round, and the coordinator knows those that it has.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from math import isfinite

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.work import AverageRound, RoundNotAveraged
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.topics.contributions.accepted_answers import StoredAnswer
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.device_agent.core.gradients import gradients_message
from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.core.records import TrainingJob
from fleetledger.device_agent.models.training import made_gradients
from fleetledger.methods.registry import descriptor
from fleetledger.methods.training.exchange import ClientUpdate, CountedUpdate
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.answer_hasher import HashedAnswer, HashedPayloads
from fleetledger.simulator.engines.inprocess.light.batches import (
    Answered,
    AnsweredHere,
    Answering,
    Said,
)
from fleetledger.simulator.engines.inprocess.light.cohort import (
    DeviceHoldings,
    check_members_novelty,
)
from fleetledger.simulator.engines.inprocess.light.context import (
    LightContext,
    TrainingContext,
    device_message,
)
from fleetledger.simulator.engines.inprocess.light.holdings import HeldRows
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.workers.lots import AnsweredByWorkers
from fleetledger.simulator.virtual.answers import Declined

Happening = inputs.Input | inputs.AnswersStored

GROUP_INPUTS = 4096
"""What is committed together."""
LEAST_BESIDE_WORKERS = 100
"""What is committed together at least while others train."""


class LightRound:
    """Carries out one round that is open, or averages again one that was closed."""

    def __init__(self, context: LightContext, training: TrainingContext, asked: Round) -> None:
        network = context.coordinator.state.lineages.trained
        self._context = context
        self._training = training
        self._opened = opened = asked.opened
        coordinator = context.coordinator
        task = RoundTask.of(coordinator.state, asked, coordinator.blobs.get)
        self._task = task
        self._key = PartKey(stage=opened.stage, part=opened.number)
        self._method, self._lineage = network.method, network.digest
        self._kind = descriptor(network.method).kind_of(opened.phase)
        self._holdings = holdings = _holdings(training, task)
        self._answers: list[CountedUpdate] = []
        """Of a round whose models are compared with what comes of them."""
        self._answering = self._made_answering(holdings)
        self._summed: list[Digest] = []
        self._sizes: dict[Digest, int] = {}
        self._done = 0
        self._validated: dict[tuple[object, ...], Contribution] = {}
        """The first contribution of each number of samples, bytes and steps."""

    def carry_out(self, meanwhile: Callable[[], None]) -> None:
        """Train everybody who has not said that there is nothing, record, close and average.

        `meanwhile` is called when workers have something to do.
        """
        context, opened = self._context, self._opened
        current = context.coordinator.state.rounds.by_number[opened.number]
        quiet = current.nothing | current.unable.keys()
        self._answering.begin([device for device in opened.cohort if device not in quiet])
        meanwhile()
        context.traffic.begin(self._task.assignment, opened.cohort[0], context.sent_ms())
        context.clock.now += self._training.place.trainers.seconds
        context.coordinator.average = self.average
        # Two looks: the first closes the round, the second has it averaged.
        looked = current.looked
        looking = [device for device in opened.observers if device not in looked]
        happenings: Iterator[Happening] = chain(
            self._train(), self._look(looking), (inputs.Tick(), inputs.Tick())
        )
        first = next(happenings, None)
        while first is not None:
            group = self._group(chain((first,), happenings))
            context.coordinator.process(group, pruned=self._sizes)
            self._sizes.clear()
            first = next(happenings, None)
        self._training.memories.settle()

    def _group(self, happenings: Iterator[Happening]) -> Iterator[Happening]:
        """Yield what is committed together next."""
        left = self._most()
        while left > 0 and (happening := next(happenings, None)) is not None:
            yield happening
            left -= len(happening.answers) if isinstance(happening, inputs.AnswersStored) else 1

    def _most(self) -> int:
        """Return how many answers are committed together next.

        Beside workers it is a third of those that are left: workers do not run out of devices
        meanwhile, little waits for the disk when the round ends, and yet there are few commits,
        each of which writes pages of the same table again.
        """
        if self._training.dealer is None:
            return GROUP_INPUTS
        return max(LEAST_BESIDE_WORKERS, (len(self._opened.cohort) - self._done) // 3)

    def average(self, request: AverageRound) -> Finished:
        """Return the mean of the answers in the ledger, which must be those of the sum."""
        networks = self._context.coordinator.maker.networks
        self._compare()
        counted = dict(Counter(item.payload for item in request.inputs))
        if counted != dict(Counter(self._summed)):  # a `Counter` compares them key by key
            reason = "answers: a former run's, and training again gave other ones"
            return Finished(RoundNotAveraged(request.opened.number, reason))
        return networks.average(request, self._answering.total())

    def _made_answering(self, holdings: DeviceHoldings) -> Answering:
        task, training, stopwatch = self._task, self._training, self._context.stopwatch
        if training.dealer is not None:
            return AnsweredByWorkers(task, holdings, training.dealer, stopwatch)
        here = AnsweredHere(task, holdings, training.place, training.hasher, stopwatch)
        if training.compare is not None:
            here.tell(self._keep)
        return here

    def _keep(self, answer: ClientUpdate) -> None:
        read = partial(bytes, answer.payload)
        self._answers.append(CountedUpdate(sum(answer.samples.values()), read))

    def _compare(self) -> None:
        """Have the models in the answers compared with what comes of them, where somebody does."""
        compare = self._training.compare
        if compare is None or not self._answers:
            return
        with self._context.stopwatch.phase("evaluation"):
            parts = self._task.parts(self._answers)
            if parts is not None:
                compare(self._opened.number, self._opened.class_names, parts)

    def sum_again(self, devices: Sequence[DeviceId]) -> None:
        """Add the answers of a closed round again; they are in the ledger already."""
        self._answering.begin(devices)
        deque(self._train(), maxlen=0)

    def _train(self) -> Iterator[Happening]:
        """Yield what the coordinator is told, while the devices that follow are trained."""
        context, stored = self._context, list[StoredAnswer]()
        for lot in self._answering.answers():
            sent_ms = context.sent_ms()
            for device, outcome, seconds in lot:
                context.spent(device, seconds)
                context.traffic.asked(device)
                told = list(self._tell_withheld(device)) if self._training.withheld else []
                if isinstance(outcome, Declined):
                    told.extend(self._decline(device, outcome.reason))
                if told and stored:
                    yield self._together(stored)
                    stored = []
                yield from told
                if not isinstance(outcome, Declined):
                    stored.append(self._stored(device, outcome, sent_ms))
            self._done += len(lot)
            context.progress(self._done)
            if len(stored) >= self._most():
                yield self._together(stored)
                stored = []
        if stored:
            yield self._together(stored)

    def _together(self, stored: list[StoredAnswer]) -> inputs.AnswersStored:
        """Return answers that are told together; their payloads are not kept."""
        self._sizes.update((answer.payload, answer.like.payload_bytes) for answer in stored)
        return inputs.AnswersStored(stored)

    def _tell_withheld(self, device: DeviceId) -> Iterator[inputs.Input]:
        """Say once, as an agent does that has something to train on, what its policy withholds."""
        told, text = self._training.told, self._training.withheld
        if device not in told and self._holdings.data(device) is not None:
            told.add(device)
            yield device_message(self._context, device, problem("policy", text))

    def _look(self, devices: Sequence[DeviceId]) -> Iterator[inputs.Input]:
        """Yield what devices say that only look; what they see does not depend on who trains."""
        context, opened, training = self._context, self._opened, self._training
        seen_by_each = check_members_novelty(
            self._task, map(self._holdings.member, devices), training.place
        )
        for name in devices:
            context.traffic.asked(name)
            with context.stopwatch.phase("looking"):
                looked = next(seen_by_each)
            context.spent(name, looked.seconds)
            if looked.seen is None:
                yield from self._decline(name, "")
                continue
            if looked.seen.memory is not None:
                memory = training.place.store.put(looked.seen.memory)
                training.memories.written(name, opened.number, memory)
            seen = looked.seen.observation
            yield self._say_nothing(
                name, Nothing(stage=opened.stage, round=opened.number, observation=seen)
            )

    def _stored(self, device: DeviceId, answered: Answered, sent_ms: int) -> StoredAnswer:
        (said, payload), context = answered, self._context
        if said.memory is not None:
            self._training.memories.written(device, self._opened.number, said.memory)
        if said.gradients is not None:
            self._give_gradients(device, said.gradients)
        loss = said.loss if said.loss is not None and isfinite(said.loss) else None
        like = self._like(said, payload, loss)
        context.traffic.answered(device, like, sent_ms)
        self._summed.append(payload.digest)
        return StoredAnswer(device, like, payload.digest, loss)

    def _give_gradients(self, device: DeviceId, gradients: bytes) -> None:
        """Let the proxy have what it gets of a device."""
        proxy = self._training.proxy
        assert proxy is not None, "gradients are for a proxy"
        job = TrainingJob(self._key, self._opened.phase, self._method, self._lineage)
        message = gradients_message(job, made_gradients(gradients, HashedPayloads()))
        self._context.traffic.gave(device, message)
        proxy.give(device, message, gradients)

    def _like(self, said: Said, payload: HashedAnswer, loss: float | None) -> Contribution:
        """Return what a device would send, but for payload and loss; validated once of many."""
        if said.observation is not None:
            return self._made(said, payload, loss)
        counts = (*said.per_class.items(), payload.size, said.steps, said.stored_samples)
        like = self._validated.get(counts)
        if like is None:
            like = self._validated[counts] = self._made(said, payload, loss)
        return like

    def _made(self, said: Said, payload: HashedAnswer, loss: float | None) -> Contribution:
        return Contribution(
            key=self._key,
            revision=0,
            payload_kind=self._kind,
            method=self._method,
            lineage=self._lineage,
            payload=payload.digest,
            payload_bytes=payload.size,
            offer=payload.offer,
            samples=dict(said.per_class),
            round=RoundAnswer(
                number=self._opened.number,
                phase=self._opened.phase,
                samples=said.samples,
                steps=said.steps,
                loss=loss,
                seconds=self._training.place.trainers.seconds,  # of the fleet: equal runs are equal
                stored_samples=said.stored_samples,
                observation=said.observation,
            ),
        )

    def _decline(self, device: DeviceId, reason: str) -> Iterator[inputs.Input]:
        """Say, as an agent does, that there is no answer, and why if it is not for want of data."""
        context, number = self._context, self._opened.number
        if reason:
            text = f"round {number}: {reason}"
            yield device_message(context, device, problem("training", text))
        nothing = Nothing(stage=self._opened.stage, round=number, reason=reason[:500])
        yield self._say_nothing(device, nothing)

    def _say_nothing(self, device: DeviceId, nothing: Nothing) -> inputs.Input:
        context = self._context
        context.traffic.declined(device, nothing, context.sent_ms())
        return device_message(context, device, nothing)


def _holdings(training: TrainingContext, task: RoundTask) -> DeviceHoldings:
    holdings = training.holdings
    rows = HeldRows.of(task.instruction.round, holdings.class_names)
    return DeviceHoldings(
        partial(holdings.data, rows=rows),
        partial(holdings.samples, rows=rows),
        training.memories.newest,
    )
