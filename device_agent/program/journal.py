"""What a device's agent says in its log: what it was asked, gave and runs, and what hinders it.

What a turn has changed is said when the turn has ended, each thing once. Where the program does
not log, as in a simulation, nothing is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.log_words import Line, contribution_line, of_round, warning
from fleetledger.device_agent.core.requests import Request, Say, SendOutboxMessage, Train
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.log_lines import LogEvent, Scalar
from fleetledger.runtime.log_setup import EventLog
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import BootId, DeviceId

DEVICE_EVENTS = {
    "agent.began": "the agent runs",
    "agent.ended": "it has ended, and why",
    "coordinator.back": "a coordinator serves",
    "coordinator.away": "no coordinator serves; what is to be said waits",
    "stage.asked": "the device is asked to contribute to a stage",
    "model.asked": "it is asked to run a version",
    "contribution.made": "images were counted into a part, or a round was answered",
    "contribution.sent": "it was sent to the coordinator; again at level `debug`",
    "contribution.received": "the receipt came: it is in the ledger, under `index`",
    "contribution.refused": "it is refused for good, and why",
    "part.retracted": "the operator took it out of the sum, and why",
    "part.withdrawn": "the device takes it back, and why",
    "masks.waiting": "a part or an answer is ready to be given behind masks",
    "masks.given": "it is given behind masks, with so many `members` in all",
    "masks.told": "the device told what it had in common with members that are silent",
    "masks.opened": "the cohort opens: it counts in a sum of so many `members`",
    "masks.again": "the cohort ended or went on without it; it is given in another one",
    "masks.refused": "a cohort is not what it must be; nothing is given in it, and why",
    "stage.nothing": "the device has nothing for a stage, or gives nothing, and why",
    "round.nothing": "it has nothing for a round, declines it, or could not train, and why",
    "training.began": "work on a round has begun",
    "training.ended": "it has ended, after `seconds`",
    "transition.noticed": "the device sees something new",
    "model.switched": "another model runs",
    "model.shadowed": "a candidate is kept beside the model that runs",
    "model.compared": "what two models made of the same samples",
    "model.settled": "a model has run for as long as it had to",
    "model.refused": "a model was not taken, and why",
    "model.rolled_back": "a model failed its test; the former one runs",
    "model.variant_left": "a variant of the frozen part failed; the reference runs",
    "model.measured": "what the model was right for on held-out samples",
    "agent.problem": "something that the owner should mend",
    "agent.hindered": "something keeps the agent from giving or getting",
    "agent.recovered": "a problem is over",
    "agent.said": "something that the owner should know",
}
"""Events that a device's agent says, beside those of its connection."""


@dataclass
class _Turn:
    """What one input has led to."""

    coordinator: BootId | None
    problems: tuple[frozenset[str], tuple[str, ...]]
    """Those that were told before: all of them, and the newest."""
    changes: list[Durable] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)


class AgentJournal:
    """Says what a device does; one thread uses it."""

    def __init__(self, device: DeviceId, now: Callable[[], float]) -> None:
        self.events = EventLog("device_agent.events", now)
        self._device = device
        self._turn: _Turn | None = None

    def say(self, level: int, event: str, text: str, **fields: Any) -> None:  # noqa: ANN401 - as `LogEvent` has them
        """Say a line about this device."""
        index, stage, number, version = (
            fields.pop(name, None) for name in ("index", "stage", "round", "version")
        )
        more: dict[str, Scalar] = {
            name: value for name, value in fields.items() if value is not None and value != ""
        }
        said = LogEvent(event, self._device, index, stage, number, version, more)
        self.events.emit(level, said, text)

    def begin(self, state: AgentState) -> None:
        """Note how things are before a turn."""
        if self.events.on:
            told = state.told
            self._turn = _Turn(state.presence.coordinator, (told.problems, told.recent))

    def wrote(self, changes: tuple[Durable, ...]) -> None:
        """Note what was committed."""
        if self._turn is not None:
            self._turn.changes += changes

    def asked(self, request: Request) -> None:
        """Note what was carried out."""
        if self._turn is not None:
            self._turn.requests.append(request)

    def end(self, state: AgentState, event: inputs.Input) -> None:
        """Say what the turn has led to."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        for line in _lines(turn, state, event):
            self.say(line.level, line.event, line.text, **line.fields)
        self.events.sum_up()

    def close(self, why: str) -> None:
        """Say that the agent has ended, and what was held back."""
        self.say(logging.INFO, "agent.ended", f"the agent has ended: {why}", reason=why)
        self.events.sum_up(all_of_it=True)


def _lines(turn: _Turn, state: AgentState, event: inputs.Input) -> Iterator[Line]:
    yield from _presence(turn, state)
    if isinstance(event, inputs.TrainingFinished | inputs.NoveltyChecked | inputs.NothingToTrain):
        yield _training_ended(event)
    said = [change.line for change in turn.changes if change.line is not None]
    if isinstance(event, inputs.ReceiptArrived):
        index = getattr(event.receipt.answer, "ledger_index", None)
        said = [replace(line, fields={"index": index, **line.fields}) for line in said]
    yield from said
    for request in turn.requests:
        yield from _request(request, state)
    yield from _problems(turn, state, said)


def _presence(turn: _Turn, state: AgentState) -> Iterator[Line]:
    before, now = turn.coordinator, state.presence.coordinator
    if before == now:
        return
    if now is None:
        yield warning("coordinator.away", "the coordinator is away")
    else:
        yield Line("coordinator.back", f"the coordinator serves (boot {now})", {"boot": now})


def _training_ended(
    event: inputs.TrainingFinished | inputs.NoveltyChecked | inputs.NothingToTrain,
) -> Line:
    text, fields = f"work on round {event.job.key.part} has ended", of_round(event.job.key)
    if isinstance(event, inputs.TrainingFinished):
        answer = event.answer
        fields |= {"seconds": round(answer.seconds, 3), "steps": answer.steps, "loss": answer.loss}
        text += f" after {answer.seconds:.1f} s, {count_of(answer.steps, 'step')}"
    return Line("training.ended", text, fields)


def _request(request: Request, state: AgentState) -> Iterator[Line]:
    if isinstance(request, Train):
        job, images = request.job, len(request.images)
        what = "looks at" if job.observes else "begins to train on"
        fields = of_round(job.key, images=images, method=job.method)
        text = f"{what} {count_of(images, 'image')} for round {job.key.part}"
        yield Line("training.began", text, fields)
    elif isinstance(request, SendOutboxMessage) and isinstance(request.body, Contribution):
        tried = state.sending.tries.get(request.message)
        again = tried is not None and tried.count > 1
        verb = "sent again" if again else "sent"
        line = contribution_line("contribution.sent", verb, request.body)
        yield replace(line, level=logging.DEBUG) if again else line


def _problems(turn: _Turn, state: AgentState, said: Sequence[Line]) -> Iterator[Line]:
    """Yield what is told to the owner and was not said yet in other words."""
    known, before = turn.problems
    reasons = tuple(line.fields["reason"] for line in said if line.fields.get("reason"))
    told, new = state.told.recent, []
    if told is not before:
        new = [text for text in told if text not in known and text not in before]
    for text in new:
        if not (reasons and text.endswith(reasons)):
            yield warning("agent.problem", text)
    for request in turn.requests:
        if isinstance(request, Say) and not any(request.text[:400] in text for text in new):
            yield Line("agent.said", request.text)
