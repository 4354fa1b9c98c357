"""Receipts with proofs, through the real rules and stores of both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import coordinator_key, note_signer
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.program.receipt_proofs import contradiction, with_proof
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared
from fleetledger.device_agent.core.comparison import comparison_written
from fleetledger.device_agent.core.records import ActiveModel, PendingComparison
from fleetledger.device_agent.core.state import LedgerTrust
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.presence import SeenCheckpoint
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import ClassName, DeviceId, FleetId
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

FLEET = FleetId("orchard")
DEVICE = DeviceId("camera-1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "coordinator"
    coordinator_key(home, FLEET)
    return home


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    with Ledger.open(home / "ledger.db", sign_note=note_signer(home, FLEET)) as opened:
        yield opened


@pytest.fixture
def agent(tmp_path: Path, home: Path) -> Driven:
    trust = LedgerTrust(FLEET, DEVICE, coordinator_key(home, FLEET).verify_key)
    made = Driven(tmp_path / "agent.db", trust=trust)
    made.connect()
    made.put(a="cat/1")
    made.assign("cat", "dog")
    made.compute("payload")
    return made


def message(agent: Driven) -> Contribution:
    body = next(item.body for item in agent.state.records.outbox.values())
    assert isinstance(body, Contribution)
    return body


def accept(ledger: Ledger, body: Contribution, device: DeviceId = DEVICE, **changed: object) -> int:
    """Write the entry that a coordinator writes of a contribution; return its index."""
    entry = ContributionAccepted(part=body.part.model_copy(update=changed))
    draft = EntryDraft(entry.kind, device, entry.model_dump(mode="json"), device)
    return ledger.append([draft])[0].index


def fill(ledger: Ledger, count: int, text: str = "") -> None:
    for number in range(count):
        body = {"ticket": str(number), "text": text}
        ledger.append([EntryDraft("command.done", "operator", body)])


def receipt_of(agent: Driven, ledger: Ledger, index: int) -> Receipt:
    body = message(agent)
    plain = Receipt(
        about="contribution",
        key=body.key,
        revision=body.revision,
        payload=body.payload,
        answer=Accepted(ledger_index=index),
    )
    seen = agent.state.records.seen
    return Receipt.read(with_proof(plain, ledger, None if seen is None else seen.size))


def compute_another(agent: Driven, content: str) -> None:
    agent.put(a="cat/1", b=f"cat/{content}")
    agent.scan()
    agent.compute(f"payload {content}")


def doubts(agent: Driven) -> str:
    return "; ".join(agent.state.told.recent)


def test_a_receipt_whose_entry_is_proven_ends_the_message(agent: Driven, ledger: Ledger) -> None:
    fill(ledger, 5)
    agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
    assert not agent.state.records.outbox
    assert agent.state.records.seen == SeenCheckpoint(size=6, root=ledger.root)
    assert agent.store.load().seen == agent.state.records.seen


def test_what_was_seen_is_said_with_every_birth(agent: Driven, ledger: Ledger) -> None:
    agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
    agent.kill()
    agent.connect()
    births = [item.body for item in agent.requests if getattr(item, "leaf", "") == "state"]
    assert births[-1].seen_checkpoint == SeenCheckpoint(size=1, root=ledger.root)


@pytest.mark.parametrize(
    ("changed", "device"),
    [
        ({"payload": making.digest("another payload")}, DEVICE),
        ({"revision": 7}, DEVICE),
        ({"key": making.part_key(1, 5)}, DEVICE),
        ({}, DeviceId("camera-2")),
    ],
    ids=["another payload", "another revision", "another part", "another device"],
)
def test_an_entry_that_says_something_else_proves_nothing(
    agent: Driven, ledger: Ledger, changed: dict[str, object], device: DeviceId
) -> None:
    index = accept(ledger, message(agent), device, **changed)
    agent.receipt(receipt_of(agent, ledger, index))
    assert agent.state.records.outbox
    assert "does not say that this was taken" in doubts(agent)


def test_a_receipt_without_a_proof_leaves_the_message_in_the_outbox(
    agent: Driven, ledger: Ledger
) -> None:
    index = accept(ledger, message(agent))
    proven = receipt_of(agent, ledger, index)
    agent.receipt(proven.model_copy(update={"answer": Accepted(ledger_index=index)}))
    assert agent.state.records.outbox
    assert "no proof came with it" in doubts(agent)
    agent.receipt(proven)
    assert not agent.state.records.outbox


def test_a_receipt_that_somebody_else_signed_is_not_believed(agent: Driven, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    with Ledger.open(stranger / "ledger.db", sign_note=note_signer(stranger, FLEET)) as other:
        agent.receipt(receipt_of(agent, other, accept(other, message(agent))))
    assert agent.state.records.outbox
    assert "not signed by" in doubts(agent)


def test_the_history_is_followed_from_checkpoint_to_checkpoint(
    agent: Driven, ledger: Ledger
) -> None:
    for number in range(2, 9):
        agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
        assert not agent.state.records.outbox
        assert agent.state.records.seen == SeenCheckpoint(size=ledger.size, root=ledger.root)
        fill(ledger, number)
        compute_another(agent, str(number))


def test_an_older_way_does_not_move_what_was_seen(agent: Driven, ledger: Ledger) -> None:
    agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
    seen = agent.state.records.seen
    fill(ledger, 3)
    compute_another(agent, "2")
    late = receipt_of(agent, ledger, accept(ledger, message(agent)))
    assert isinstance(late.answer, Accepted)
    without = late.answer.model_copy(update={"grown": ledger.consistency_proof(2, ledger.size)})
    agent.receipt(late.model_copy(update={"answer": without}))
    assert not agent.state.records.outbox, "the entry itself is proven"
    assert agent.state.records.seen == seen


def test_a_fork_of_history_is_noticed_and_nothing_is_believed_of_it(
    agent: Driven, ledger: Ledger, home: Path
) -> None:
    fill(ledger, 4)
    agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
    compute_another(agent, "2")
    # The coordinator's own key, and a ledger that it shows to this device alone.
    with Ledger.open(home / "fork.db", sign_note=note_signer(home, FLEET)) as fork:
        fill(fork, 9, "another history")
        index = accept(fork, message(agent))
        assert "two histories" in contradiction(fork, agent.state.records.seen)
        agent.receipt(receipt_of(agent, fork, index))
    assert agent.state.records.outbox
    assert "history was changed between them" in doubts(agent)


def test_two_roots_of_one_size_are_noticed(agent: Driven, ledger: Ledger, home: Path) -> None:
    agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
    compute_another(agent, "2")
    with Ledger.open(home / "fork.db", sign_note=note_signer(home, FLEET)) as fork:
        agent.receipt(receipt_of(agent, fork, accept(fork, message(agent))))
    assert "two histories" in doubts(agent)
    assert agent.state.records.outbox


def test_a_ledger_that_was_cut_short_is_believed_again_once_the_owner_says_so(
    agent: Driven, ledger: Ledger, home: Path
) -> None:
    fill(ledger, 20)
    agent.receipt(receipt_of(agent, ledger, accept(ledger, message(agent))))
    compute_another(agent, "2")
    with Ledger.open(home / "backup.db", sign_note=note_signer(home, FLEET)) as backup:
        fill(backup, 10)
        index = accept(backup, message(agent))
        assert "ends before entry 11" in contradiction(backup, agent.state.records.seen)
        agent.receipt(receipt_of(agent, backup, index))
        assert "cut short or restored from a backup" in doubts(agent)
        assert agent.state.records.outbox
        agent.state.records.seen = None  # what `agent forget --checkpoint` does
        agent.receipt(receipt_of(agent, backup, index))
    assert not agent.state.records.outbox


def test_every_altered_field_of_a_proof_is_refused(agent: Driven, ledger: Ledger) -> None:
    fill(ledger, 13)
    good = receipt_of(agent, ledger, accept(ledger, message(agent)))
    assert isinstance(good.answer, Accepted)
    proof = good.answer.proof
    assert proof is not None
    moved = proof.inclusion.model_copy(update={"index": 12})
    cut = proof.inclusion.model_copy(update={"path": proof.inclusion.path[1:]})
    stranger = SigningKey.fresh(KeyName("orchard/coordinator"))
    for altered in (
        {"entry": proof.entry.replace("camera-1", "camera-2")},
        {"entry": proof.entry + "\n"},
        {"inclusion": moved},
        {"inclusion": cut},
        {"checkpoint": proof.checkpoint.replace("14", "15", 1)},
        {"checkpoint": proof.checkpoint.replace(str(stranger.name), "orchard/c")},
    ):
        answer = good.answer.model_copy(update={"proof": proof.model_copy(update=altered)})
        agent.receipt(good.model_copy(update={"answer": answer}))
        assert agent.state.records.outbox, altered
    agent.receipt(good)
    assert not agent.state.records.outbox


def test_a_device_without_the_key_believes_as_before(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "agent.db")
    agent.connect()
    agent.put(a="cat/1")
    agent.assign("cat", "dog")
    agent.compute("payload")
    agent.receipt(making.accepted("contribution", making.part_key()))
    assert not agent.state.records.outbox
    assert agent.state.records.seen is None


@pytest.mark.parametrize("images", [7, 8], ids=["as it was sent", "with other counts"])
def test_a_comparison_is_proven_by_its_entry_alone(
    agent: Driven, ledger: Ledger, images: int
) -> None:
    body = ModelComparison(
        number=0,
        rollout=4,
        group=1,
        mode="shadow",
        candidate=making.digest("new"),
        candidate_version=2,
        active=making.digest("old"),
        active_version=1,
        classes={ClassName("cat"): Pairs(both=7)},
        celsius=61.0,
        seconds=1.5,
    )
    one, two = ActiveModel(1, body.active), ActiveModel(2, body.candidate)
    pending = PendingComparison(4, 1, "shadow", two, one)
    agent.store.commit(agent.state.records, [comparison_written(pending, body)])
    entry = ModelCompared(
        comparison=body.model_copy(update={"classes": {ClassName("cat"): Pairs(both=images)}})
    )
    draft = EntryDraft(entry.kind, DEVICE, entry.model_dump(mode="json"), DEVICE)
    answer = Accepted(ledger_index=ledger.append([draft])[0].index)
    plain = Receipt(about="comparison", key=body.key, answer=answer)
    agent.receipt(Receipt.read(with_proof(plain, ledger, None)))
    left = any(key.about == "comparison" for key in agent.state.records.outbox)
    assert left == (images != 7)
