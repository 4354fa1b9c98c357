"""What an inspection finds before a solve is set aside until the operator decides."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.core.work import Judging, SolveHead
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.replay import recipes
from fleetledger.coordinator.replay.overlay_store import KeepingStore
from fleetledger.coordinator.replay.remaker import Remaking
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionsCountedIn,
    ContributionsSetAside,
    PartBounds,
)
from fleetledger.coordinator.topics.models.entries import ModelSolved
from tests.coordinator.models.digit_home import dealt, write_home

LIARS = (7, 9)
BOUNDED = PartBounds(residual=9, pull=9, move=9, move_from_devices=1)


def solved(home: Path, *, inspects: bool = True) -> ContributionsSetAside | ModelSolved:
    """Solve what counts, and record what comes of it."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        state = state_of(ledger)
        assert state.lineages.backbone is not None
        request = SolveHead(
            version=state.models.next_version,
            lineage=state.lineages.backbone,
            ledger_size=state.size,
            class_names=state.contributions.learned_names(),
            resolution=state.classes.resolution(),
            judging=Judging(0, BOUNDED, inspects),
        )
    made = ModelMaker(home, BlobStore(blob_folder(home))).solve(request).happening
    assert isinstance(made, ContributionsSetAside | ModelSolved)
    record(home, made)
    return made


def record(home: Path, body: EntryBody) -> None:
    with Ledger.open(ledger_path(home)) as ledger:
        draft = EntryDraft(body.kind, "test", body.model_dump(mode="json"))
        ledger.append([draft])


def test_what_harms_is_set_aside_with_words_and_stays_so(tmp_path: Path) -> None:
    entries = write_home(tmp_path, dealt(14, LIARS))
    found = solved(tmp_path)
    assert isinstance(found, ContributionsSetAside)
    assert found.inspected
    assert [part.device for part in found.set_aside] == ["dev-7", "dev-9"]
    assert [part.indices for part in found.set_aside] == [(entries[6],), (entries[8],)]
    assert found.sentences[0].startswith(
        "1 contribution of device dev-7 set aside: an inspection says of it: makes class "
    )
    model = solved(tmp_path)
    assert isinstance(model, ModelSolved)
    assert model.contributions == 12
    assert model.remarks[-1] == "2 contributions of 2 devices set aside"
    assert isinstance(solved(tmp_path), ModelSolved)  # and no later model clears them


def test_what_the_operator_lets_count_is_not_set_aside_again(tmp_path: Path) -> None:
    entries = write_home(tmp_path, dealt(14, LIARS))
    found = solved(tmp_path)
    assert isinstance(found, ContributionsSetAside)
    record(
        tmp_path, ContributionsCountedIn(device=found.set_aside[0].device, indices=(entries[6],))
    )
    model = solved(tmp_path)
    assert isinstance(model, ModelSolved)
    assert model.contributions == 13


def test_between_two_camps_nothing_is_set_aside(tmp_path: Path) -> None:
    write_home(tmp_path, dealt(14, range(1, 7)))
    assert isinstance(solved(tmp_path), ModelSolved)


def test_replay_inspects_again(tmp_path: Path) -> None:
    write_home(tmp_path, dealt(14, LIARS))
    solved(tmp_path)
    with LedgerReader.open_read_only(ledger_path(tmp_path)) as ledger:
        (recipe,) = recipes.everything(ledger, None)
        store = KeepingStore(blob_folder(tmp_path))
        outcome = Remaking(tmp_path, ledger, store).outcome(recipe)
    assert outcome.state == "equal"
    assert outcome.detail == "an inspection finds the same: dev-7, dev-9"
