"""The checks can fail: programs that break a promise are found within a few dozen seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.ledger import folder_store
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.program import shell
from fleetledger.coordinator.topics.contributions.rules import Intake
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models import slots
from fleetledger.schemas.values import Digest
from tests.chaos.trials import Trials

MOST_SEEDS = 40
OFFERED = 2
"""The fleet whose payloads are large enough for the blob store."""


@pytest.fixture
def mutant(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Break something, and see that seeds find one of some promises broken by it."""
    for seed in filter(trials.can_run, range(trials.fleets)):
        trials.prepared(seed)  # what they are compared with must be right

    def found(
        owner: Any, name: str, mutation: Any, *promises: str, every: int = 1, first: int = 0
    ) -> None:
        monkeypatch.setattr(owner, name, mutation)
        seeds = range(first, first + every * MOST_SEEDS, every)
        for seed in filter(trials.can_run, seeds):
            if {item.promise for item in trials.run(seed).broken} & set(promises):
                return
        pytest.fail(f"{MOST_SEEDS} seeds found nothing")

    return found


@pytest.mark.nightly
def test_a_coordinator_that_answers_before_its_commit_is_found(
    mutant: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Ledger.append
    # What the ledger does not have cannot be proven, so that a coordinator that proves would fail.
    monkeypatch.setattr(shell, "with_proof", lambda receipt, *_: receipt.model_dump(mode="json"))

    def late(self: Ledger, group: Any, small_blobs: Any = None, pruned: Any = None) -> None:
        """Commit contributions with whatever comes next."""
        held = self.__dict__.setdefault("held", [])
        if group and all(draft.kind == "contribution.accepted" for draft in group):
            held.append((group, small_blobs, pruned))
            return
        while held:
            append(self, *held.pop(0))
        append(self, group, small_blobs, pruned)

    mutant(Ledger, "append", late, "a receipt is true")


def test_an_agent_that_forgets_its_outbox_is_found(mutant: Callable[..., None]) -> None:
    load = AgentStore.load

    def forgetful(self: AgentStore) -> Any:
        records = load(self)
        records.outbox.clear()
        return records

    # What it had sent is in the sum, and its own books never hear of it; the rest is missed.
    promises = ("every run comes to its end", "nothing accepted is lost")
    mutant(AgentStore, "load", forgetful, *promises)


def test_an_agent_that_forgets_which_images_it_counted_is_found(
    mutant: Callable[..., None],
) -> None:
    load = AgentStore.load

    def forgetful(self: AgentStore) -> Any:
        records = load(self)
        records.counted.clear()
        return records

    mutant(AgentStore, "load", forgetful, "every image counts once")


def test_a_coordinator_that_counts_every_copy_is_found(
    mutant: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Intake, "_held_index", lambda *_: None)
    mutant(Intake, "_judge", lambda *_: None, "nothing counts twice")


def test_an_agent_that_writes_its_slots_without_syncing_is_found(
    mutant: Callable[..., None],
) -> None:
    def careless(path: Path, data: bytes, **_: object) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_bytes(data)
        temporary.replace(path)
        slots.sync_folder(path.parent)

    mutant(slots, "write_durably", careless, "a device keeps a working model")


@pytest.mark.nightly
def test_a_blob_store_that_does_not_sync_what_it_takes_over_is_found(
    mutant: Callable[..., None], trials: Trials
) -> None:
    def careless(store: folder_store.FolderStore, digest: Digest, path: Path) -> bool:
        """Copy what was fetched, and sync neither bytes nor name."""
        target = store.path(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        return True

    mutant(
        folder_store.FolderStore,
        "adopt",
        careless,
        "the ledger verifies",
        every=trials.fleets,
        first=OFFERED,
    )


@pytest.mark.nightly
def test_a_blob_store_whose_names_are_not_durable_is_found(
    mutant: Callable[..., None], trials: Trials
) -> None:
    mutant(
        folder_store,
        "fsync_folder",
        lambda _folder: None,
        "the ledger verifies",
        every=trials.fleets,
        first=OFFERED,
    )
