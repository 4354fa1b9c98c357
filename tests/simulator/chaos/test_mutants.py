"""The checks can fail: programs that break a promise are found within a few dozen seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.core.intake import Intake
from coordinator.ledger import folder_store
from coordinator.ledger.store import Ledger
from device_agent import slots
from device_agent.store.store import Store
from simulator.chaos.trials import Trials

MOST_SEEDS = 40
OFFERED = 2
"""The fleet whose payloads are large enough for the blob store."""


def first_broken(trials: Trials, seeds: range) -> tuple[int, set[str]]:
    """Return how many seeds it took, and the promises that the last one broke."""
    for number, seed in enumerate(seeds, start=1):
        trials.prepared(seed)
        report = trials.run(seed)
        if report.broken:
            return number, {item.promise for item in report.broken}
    pytest.fail(f"{len(seeds)} seeds found nothing")


@pytest.fixture
def mutant(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
    """Break something, and return the promises that are found broken."""
    for seed in range(trials.fleets):
        trials.prepared(seed)  # what they are compared with must be right

    def found(owner: Any, name: str, mutation: Any, *, every: int = 1, first: int = 0) -> set[str]:
        monkeypatch.setattr(owner, name, mutation)
        return first_broken(trials, range(first, first + every * MOST_SEEDS, every))[1]

    return found


def test_a_coordinator_that_answers_before_its_commit_is_found(
    mutant: Callable[..., set[str]],
) -> None:
    append = Ledger.append

    def late(self: Ledger, group: Any, small_blobs: Any = None, pruned: Any = None) -> None:
        """Commit contributions with whatever comes next."""
        held = self.__dict__.setdefault("held", [])
        if group and all(draft.kind == "contribution.accepted" for draft in group):
            held.append((group, small_blobs, pruned))
            return
        while held:
            append(self, *held.pop(0))
        append(self, group, small_blobs, pruned)

    assert "a receipt is true" in mutant(Ledger, "append", late)


def test_an_agent_that_forgets_its_outbox_is_found(mutant: Callable[..., set[str]]) -> None:
    load = Store.load

    def forgetful(self: Store) -> Any:
        records = load(self)
        records.outbox.clear()
        return records

    # What it had sent is in the sum, and its own books never hear of it; the rest is missed.
    found = mutant(Store, "load", forgetful)
    assert found & {"every run comes to its end", "nothing accepted is lost"}


def test_an_agent_that_forgets_which_images_it_counted_is_found(
    mutant: Callable[..., set[str]],
) -> None:
    load = Store.load

    def forgetful(self: Store) -> Any:
        records = load(self)
        records.counted.clear()
        return records

    assert "every image counts once" in mutant(Store, "load", forgetful)


def test_a_coordinator_that_counts_every_copy_is_found(
    mutant: Callable[..., set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Intake, "_held_index", lambda *_: None)
    assert "nothing counts twice" in mutant(Intake, "_judge", lambda *_: None)


def test_an_agent_that_writes_its_slots_without_syncing_is_found(
    mutant: Callable[..., set[str]],
) -> None:
    def careless(path: Path, data: bytes, **_: object) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_bytes(data)
        temporary.replace(path)
        slots.sync_folder(path.parent)

    assert "a device keeps a working model" in mutant(slots, "write_durably", careless)


def test_a_blob_store_that_does_not_sync_is_found(
    mutant: Callable[..., set[str]], trials: Trials
) -> None:
    def careless(path: Path, parts: Any) -> None:
        path.write_bytes(b"".join(parts))

    assert "the ledger verifies" in mutant(
        folder_store, "_write_durably", careless, every=trials.fleets, first=OFFERED
    )
