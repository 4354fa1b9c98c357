"""No input makes an entry that the ledger refuses, and none ends the coordinator in that way."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.requests import AnswerOperator, Request, SendToDevice
from fleetledger.coordinator.core.rules import ModelRules, Rules, StageRules
from fleetledger.coordinator.core.work import SolveHead
from fleetledger.coordinator.errors import EntryError
from fleetledger.coordinator.ledger import entries
from fleetledger.coordinator.ledger.entries import EntryDraft, settled
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.receipts import Receipt, Refused
from fleetledger.schemas.values import BootId, DeviceId, Digest
from tests.coordinator.core.harness import BACKBONE, FLEET, contribution, names, solved

DEVICE = DeviceId("dev-1")
SENDER = Sender(FLEET, DEVICE, BootId.fresh())
RULES = Rules(
    models=ModelRules(solve_every_seconds=0), stages=StageRules(quiet_seconds=0, quorum=1.0)
)
SECOND_NS = 1_000_000_000


class Clock:
    """A time that goes on by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now_ns = SECOND_NS

    def __call__(self) -> int:
        self.now_ns += SECOND_NS
        return self.now_ns


@pytest.fixture
def engine(tmp_path: Path) -> LedgerEngine:
    """A coordinator whose one device gave a part, and that waits for the model."""
    made = LedgerEngine.open(tmp_path, RULES, clock=Clock())
    told(made, AdmitDevice(device=DEVICE))
    told(made, ImportBackbone(backbone=BACKBONE))
    told(made, OpenStage(class_names=names("cat")))
    body = contribution("a", samples={"cat": 3})
    made.process([inputs.PayloadOutcome(DEVICE, body)], {Digest.of(b"a"): b"a"})
    return made


def told(engine: LedgerEngine, command: Command) -> AnswerOperator:
    (found,) = [
        request
        for request in engine.process([inputs.OperatorCommand(secrets.token_hex(8), command)])
        if isinstance(request, AnswerOperator)
    ]
    return found


def ticks(engine: LedgerEngine, count: int) -> list[Request]:
    return [request for _ in range(count) for request in engine.process([inputs.Tick()])]


def limit(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let a body have so many bytes."""
    monkeypatch.setattr(entries, "MAX_BODY_BYTES", size)


def message(body: Message) -> inputs.DeviceMessage:
    return inputs.DeviceMessage(DEVICE, SENDER.seal(body, sent_ms=0))


def kinds(engine: LedgerEngine) -> list[str]:
    return [entry.kind for entry in engine.ledger.entries()]


def asked_for_model(engine: LedgerEngine) -> SolveHead:
    (request,) = [item for item in ticks(engine, 5) if isinstance(item, SolveHead)]
    return request


def size_of(body: object) -> int:
    return len(entries.settled_body("model.solved", body)[0])


@pytest.mark.parametrize("over", [0, 1])
def test_a_model_whose_entry_is_too_large_is_one_that_could_not_be_made(
    engine: LedgerEngine, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    """At the limit it is recorded; a byte above it, what is recorded says so."""
    request = asked_for_model(engine)
    body = solved(request, 1).model_copy(update={"remarks": ("word " * 900,)})
    made = body.model_dump(mode="json")
    limit(monkeypatch, size_of(made) - over)
    engine.process([body])
    assert kinds(engine)[-1] == ("model.failed" if over else "model.solved")
    if over:
        assert "bytes are too many" in engine.ledger.entry(engine.ledger.size - 1).body["reason"]
        assert not [item for item in ticks(engine, 5) if isinstance(item, SolveHead)]
        assert engine.core.state.models.failed is not None


def test_a_command_and_a_message_are_answered(
    engine: LedgerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = engine.ledger.size
    limit(monkeypatch, 300)
    answer = told(engine, OpenStage(class_names=names(*(f"class {n}" for n in range(40)))))
    assert not answer.done
    assert "bytes are too many" in answer.text
    limit(monkeypatch, 10)
    (sent,) = engine.process([message(Nothing(stage=1))])
    assert isinstance(sent, SendToDevice)
    assert isinstance(sent.body, Receipt)
    assert isinstance(sent.body.answer, Refused)
    assert "bytes are too many" in sent.body.answer.reason
    assert engine.ledger.size == size


def test_what_time_leads_to_waits_and_the_rest_goes_on(
    engine: LedgerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 10)
    asked = ticks(engine, 3)
    assert [item for item in asked if isinstance(item, SolveHead)], "a model is asked for"
    limit(monkeypatch, 1 << 20)
    assert "stage.closed" not in kinds(engine)
    ticks(engine, 70)
    assert "stage.closed" in kinds(engine)


def test_a_message_on_which_the_rules_end_is_refused(
    engine: LedgerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("nobody thought of it")

    monkeypatch.setattr(engine.core.intake, "nothing", fails)
    (sent,) = engine.process([message(Nothing(stage=1))])
    assert isinstance(sent, SendToDevice)
    assert isinstance(sent.body, Receipt)
    assert isinstance(sent.body.answer, Refused)
    assert "could not judge it" in sent.body.answer.reason


@pytest.mark.parametrize(
    "draft",
    [
        EntryDraft("kind", "a\nb", {}),
        EntryDraft("Kind", "actor", {}),
        EntryDraft("kind", "actor", {"number": float("nan")}),
        EntryDraft("kind", "actor", {"text": "\ud800"}, plain=True),
    ],
)
def test_a_settled_draft_is_one_that_the_ledger_takes(draft: EntryDraft) -> None:
    with pytest.raises(EntryError):
        settled(draft)
