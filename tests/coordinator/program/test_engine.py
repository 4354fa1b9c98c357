"""The engine commits what was decided before anything is carried out, again if it has to."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetledger.coordinator import settings as settings_module
from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.requests import AnswerOperator, SendToDevice
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.coordinator.errors import LedgerLockedError, LedgerWriteError
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.engine import LedgerEngine, carry_out_waiting
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import Envelope, Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from tests.coordinator.core.harness import BACKBONE, FLEET, contribution, names

DEVICE = DeviceId("dev-1")
SENDER = Sender(FLEET, DEVICE, BootId.fresh())


def order(command: Command) -> inputs.OperatorCommand:
    return inputs.OperatorCommand(secrets.token_hex(8), command)


def envelope(body: Message) -> Envelope:
    return SENDER.seal(body, sent_ms=0)


def begun(home: Path) -> LedgerEngine:
    engine = LedgerEngine.open(home, Rules())
    engine.process(
        [
            order(AdmitDevice(device=DEVICE)),
            order(ImportBackbone(backbone=BACKBONE)),
            order(OpenStage(class_names=names("cat"))),
        ]
    )
    return engine


def test_a_group_sees_the_inputs_before_it_and_is_one_transaction(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    kinds = [entry.kind for entry in engine.ledger.entries()]
    assert kinds == [
        "device.admitted",
        "backbone.imported",
        "command.done",
        "class.named",
        "stage.opened",
        "command.done",
    ]
    assert [checkpoint.size for checkpoint in engine.ledger.checkpoints()] == [6]


def test_a_restarted_coordinator_has_the_state_that_it_had(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    body = contribution("a")
    engine.process(
        [
            inputs.DeviceMessage(DEVICE, envelope(body)),
            inputs.PayloadOutcome(DEVICE, body),
        ],
        {Digest.of(b"a"): b"a"},
    )
    state = engine.core.state
    engine.close()
    again = LedgerEngine.open(tmp_path, Rules())
    assert again.core.state == state
    assert again.core.state.contributions.inputs() == (6,)


def test_entries_are_made_as_they_will_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = begun(tmp_path)
    append, made = engine.ledger.append, []
    monkeypatch.setattr(engine.ledger, "append", lambda *group: made.extend(append(*group)))
    first, widths = engine.ledger.size, {"widths": (64, 32)}
    backbone = BACKBONE.model_copy(update={"settings": widths})
    engine.process([order(ImportBackbone(backbone=backbone))])
    assert made[0].body["settings"] == {"widths": [64, 32]}
    assert made == list(engine.ledger.entries(first))


def test_what_the_disk_refused_is_committed_as_it_was_decided_and_only_then_carried_out(
    tmp_path: Path,
) -> None:
    engine = begun(tmp_path)
    size = engine.ledger.size
    pages = engine.ledger.db.execute("PRAGMA page_count").fetchone()[0]
    engine.ledger.db.execute(f"PRAGMA max_page_count = {pages}")
    big = {Digest.of(bytes([i]) * 60_000): bytes([i]) * 60_000 for i in range(4)}
    with pytest.raises(LedgerWriteError, match="full"):
        engine.process([inputs.DeviceMessage(DEVICE, envelope(Nothing(stage=1)))], big)
    assert engine.waits
    with pytest.raises(LedgerWriteError, match="full"):
        engine.commit()
    assert engine.ledger.size == size
    engine.ledger.db.execute("PRAGMA max_page_count = 1000000")
    requests = engine.commit()
    assert any(isinstance(request, SendToDevice) for request in requests)
    assert not engine.waits
    assert [entry.kind for entry in engine.ledger.entries(size)] == ["nothing.reported"]
    assert engine.commit() == []
    state = copy.deepcopy(engine.core.state)
    engine.close()
    assert LedgerEngine.open(tmp_path, Rules()).core.state == state


def test_who_wants_to_know_how_long_commits_take_is_entered_around_each(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    sizes: list[int] = []

    @contextmanager
    def around() -> Iterator[None]:
        sizes.append(engine.ledger.size)
        yield
        sizes.append(engine.ledger.size)

    engine.around_commit = around
    size = engine.ledger.size
    engine.process([inputs.DeviceMessage(DEVICE, envelope(Nothing(stage=1)))])
    assert sizes == [size, size + 1]
    engine.close()


def test_what_a_crash_keeps_from_the_disk_has_not_happened(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    before = copy.deepcopy(engine.core.state)
    engine.ledger.db.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerWriteError):
        engine.process([inputs.DeviceMessage(DEVICE, envelope(Nothing(stage=1)))])
    engine.close()
    assert LedgerEngine.open(tmp_path, Rules()).core.state == before


def test_a_payload_on_its_way_when_a_commit_fails_is_counted_once_it_succeeds(
    tmp_path: Path,
) -> None:
    engine = begun(tmp_path)
    engine.process([inputs.DeviceMessage(DEVICE, envelope(contribution("a")))])
    engine.ledger.db.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerWriteError):
        engine.process([inputs.PayloadOutcome(DEVICE, contribution("a"))])
    engine.ledger.db.execute("PRAGMA query_only = OFF")
    assert any(isinstance(request, SendToDevice) for request in engine.commit())
    requests = engine.process([inputs.DeviceMessage(DEVICE, envelope(contribution("a")))])
    assert not any(isinstance(request, TakePayload) for request in requests)
    assert len(engine.core.state.contributions.counted) == 1


def test_only_one_process_may_write(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    with pytest.raises(LedgerLockedError):
        LedgerEngine.open(tmp_path, Rules())
    engine.close()


def test_commands_are_carried_out_here_when_no_coordinator_runs(tmp_path: Path) -> None:
    settings_module.write_new(tmp_path, CoordinatorSettings(fleet=FleetId("test-fleet")))
    inbox = OperatorInbox(tmp_path)
    ticket = inbox.submit(AdmitDevice(device=DEVICE))
    assert carry_out_waiting(tmp_path)
    answer = inbox.answer_to(ticket)
    assert answer is not None
    assert answer.done
    engine = LedgerEngine.open(tmp_path, Rules())
    assert DEVICE in engine.core.state.devices.admitted
    inbox.submit(CloseStage())
    assert not carry_out_waiting(tmp_path)
    assert ledger_path(tmp_path).exists()


def test_a_command_whose_answer_was_lost_in_a_crash_is_answered_and_not_carried_out_again(
    tmp_path: Path,
) -> None:
    settings_module.write_new(tmp_path, CoordinatorSettings(fleet=FleetId("test-fleet")))
    inbox = OperatorInbox(tmp_path)
    engine = begun(tmp_path)
    ticket = inbox.submit(OpenStage(class_names=names("dog")))
    engine.process([inputs.OperatorCommand(w.ticket, w.command) for w in inbox.waiting()])
    stages, size = dict(engine.core.state.stages.by_number), engine.ledger.size
    engine.close()  # the crash: the entries are committed, the inbox has no answer
    assert carry_out_waiting(tmp_path)
    answer = inbox.answer_to(ticket)
    assert answer is not None
    assert (answer.done, answer.text) == (
        True,
        "stage 2 is open for dog; no device has told of samples of dog yet",
    )
    again = LedgerEngine.open(tmp_path, Rules())
    assert (again.core.state.stages.by_number, again.ledger.size) == (stages, size)


def test_a_refused_command_leaves_no_entry(tmp_path: Path) -> None:
    engine = LedgerEngine.open(tmp_path, Rules())
    (answer,) = engine.process([order(CloseStage())])
    assert isinstance(answer, AnswerOperator)
    assert not answer.done
    assert engine.ledger.size == 0
