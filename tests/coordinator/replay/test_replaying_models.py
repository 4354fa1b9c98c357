"""Models of statistics made again: the same sum everywhere, the same head on one platform."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.blobs import BlobStore, prune_held
from fleetledger.coordinator.ledger.entries import Entry, EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.models import model_maker
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.replay import comparison
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.methods.stsa.head import RidgeHead
from fleetledger.schemas.values import Digest
from tests.coordinator.replay.stories import Story, replay, three_models


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A fleet whose models also tell how new a sample is."""
    story = three_models(tmp_path_factory.mktemp("told"), novelty="distance")
    yield story
    story.close()


@pytest.fixture
def home(told: Story, tmp_path: Path) -> Path:
    """A copy of the home, as on another machine; the coordinator goes on running."""
    copied = tmp_path / "copy"
    shutil.copytree(told.home, copied)
    return copied


def solved(home: Path) -> dict[int, ModelSolved]:
    """Every solved model by the index of its entry."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        found = [(entry.index, read_entry(entry.kind, entry.body)) for entry in ledger.entries()]
    return {index: body for index, body in found if isinstance(body, ModelSolved)}


def payload(home: Path, index: int) -> Digest:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return ContributionAccepted.model_validate(ledger.entry(index).body).part.payload


def everything(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_every_model_is_made_again_with_the_same_sum_and_head(home: Path) -> None:
    code, out = replay(home, "--all")
    lines = [line.split("\t") for line in out.splitlines()[:-1]]
    models = solved(home)
    assert code == 0, out
    assert [int(line[0]) for line in lines] == list(models)
    for (_, what, state, detail), body in zip(lines, models.values(), strict=True):
        assert (what, state) == (f"model {body.version}", "equal")
        assert detail == f"aggregate {body.aggregate.short}, head {body.head.short}"
    assert len({body.aggregate for body in models.values()}) > 2, "the story has several sums"


def test_it_works_beside_the_running_coordinator_and_writes_nothing(told: Story) -> None:
    before = everything(told.home / "ledger" / "blobs")
    code, out = replay(told.home)
    newest = max(body.version for body in solved(told.home).values())
    assert (code, out.split("\t")[1:3]) == (0, [f"model {newest}", "equal"])
    assert everything(told.home / "ledger" / "blobs") == before


def test_one_version_or_the_last_one_before_an_entry(home: Path) -> None:
    models = solved(home)
    (first, body), (second, _), *_ = models.items()
    assert replay(home, "--version", str(body.version))[1].startswith(f"{first}\tmodel 1\tequal")
    assert replay(home, "--to", str(second - 1))[1].startswith(f"{first}\tmodel 1\tequal")
    assert replay(home, "--to", str(second))[1].startswith(f"{second}\tmodel 2\tequal")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--version", "99"), "--version: 99 is not a model"),
        (("--to", "9999"), "--to: 9999 is not in the ledger"),
        (("--to", "0"), "no model was solved"),
        (("--to", "5", "--version", "1"), "--version: give it alone"),
    ],
)
def test_what_is_not_there_is_a_usage_error(home: Path, options: tuple[str], why: str) -> None:
    code, out = replay(home, *options)
    assert code == 2
    assert why in out


def inputs(home: Path, model: ModelSolved) -> list[int]:
    """The contributions in the sum of a model, by what the entries before it say."""
    given: dict[int, Digest] = {}
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        for entry in ledger.entries(0, model.ledger_size):
            if entry.body.get("replaces") is not None:
                given.pop(entry.body["replaces"], None)
            if entry.kind == ContributionAccepted.kind:
                given[entry.index] = entry.body["part"]["lineage"]
    found = [index for index, lineage in given.items() if lineage == model.lineage]
    assert len(found) == model.contributions
    return found


def test_a_flipped_byte_of_a_contribution_is_named_with_its_entry(home: Path) -> None:
    index = inputs(home, next(iter(solved(home).values())))[0]
    path = BlobStore(blob_folder(home)).local_path(payload(home, index))
    assert path is not None
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    code, out = replay(home, "--all")
    assert code == 1
    assert f"model 1\tdiffers\tblob {payload(home, index)}" in out
    assert f"(contribution of entry {index})" in out


def test_a_contribution_in_place_of_another_gives_another_sum(home: Path) -> None:
    """Bytes, digest and leaf fit; what the entry of the model says does not."""
    models = list(solved(home).values())
    first, other = models[0], models[-1].aggregate
    assert first.aggregate != other
    rewritten = home / "rewritten"
    (rewritten / "ledger").mkdir(parents=True)
    shutil.copytree(blob_folder(home), blob_folder(rewritten))
    with LedgerReader.open_read_only(ledger_path(home)) as before:
        rows = before.db.execute("SELECT digest, content FROM blob WHERE content IS NOT NULL")
        small = {Digest(digest): content for digest, content in rows.fetchall()}
        drafts = [_with_aggregate(entry, first.version, other) for entry in before.entries()]
    with Ledger.open(ledger_path(rewritten)) as ledger:
        ledger.append(drafts, small)
    code, out = replay(rewritten, "--version", "1")
    assert code == 1
    assert f"differs\taggregate should be {other}, made {first.aggregate}" in out


def _with_aggregate(entry: Entry, version: int, aggregate: Digest) -> EntryDraft:
    """The entry again; that of one model with another aggregate."""
    body = entry.body
    if entry.kind == ModelSolved.kind and body["version"] == version:
        body = {**body, "aggregate": aggregate}
    return EntryDraft(entry.kind, entry.actor, body, entry.device, entry.blobs, entry.time_ns)


def test_a_stored_head_that_was_altered_is_told_apart_from_the_one_that_was_made(
    home: Path,
) -> None:
    head = next(iter(solved(home).values())).head
    with Ledger.open(ledger_path(home)) as ledger, ledger.db:
        ledger.db.execute("UPDATE blob SET content = x'00' WHERE digest = ?", [head])
    code, out = replay(home, "--version", "1")
    assert code == 1
    assert "what is stored as head is no longer what was made" in out


def test_a_pruned_contribution_is_named_with_what_can_no_longer_be_made(home: Path) -> None:
    models = list(solved(home).values())
    index = inputs(home, models[0])[1]
    gone = payload(home, index)
    with Ledger.open(ledger_path(home)) as ledger:
        prune_held(ledger, BlobStore(blob_folder(home)), [gone])
    code, out = replay(home, "--all")
    assert code == 0, "nothing differs"
    assert (
        f"model 1\tcannot be made again\tdeleted by retention: blob {gone} (contribution of entry "
        f"{index})" in out
    )
    last = models[-1]
    assert index not in inputs(home, last)
    assert f"model {last.version}\tequal" in out, "it does not need what is gone"
    assert replay(home, "--version", "1")[0] == 1, "the one thing asked for cannot be had"


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay as if on another machine."""
    here = {**platform_fingerprint(), "blas_core": "another"}
    monkeypatch.setattr(model_maker, "platform_fingerprint", lambda: here)


def moved_head(monkeypatch: pytest.MonkeyPatch, by: float) -> None:
    """Have solves end a little beside where they end here."""
    encode = model_maker.encode_head

    def encoded(head: RidgeHead) -> bytes:
        moved = np.float32(by * np.abs(head.weights).max())
        return encode(replace(head, weights=head.weights + moved))

    monkeypatch.setattr(model_maker, "encode_head", encoded)


def test_a_head_of_another_platform_is_measured_against_the_tolerance(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    moved_head(monkeypatch, comparison.SOLVED / 4)
    code, out = replay(home, "--version", "1")
    assert code == 0, out
    assert "model 1\twithin tolerance\thead on another platform (blas_core " in out
    assert f"tolerance {comparison.SOLVED:g}; the aggregate is equal" in out


def test_a_head_beyond_the_tolerance_differs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch)
    moved_head(monkeypatch, comparison.SOLVED * 4)
    code, out = replay(home, "--version", "1")
    assert code == 1
    assert "model 1\tdiffers\thead on another platform" in out


def test_on_the_same_platform_no_distance_is_small_enough(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_head(monkeypatch, comparison.SOLVED / 4)
    code, out = replay(home, "--version", "1")
    assert code == 1
    assert "on a platform with the same fingerprint" in out


def test_another_kind_of_processor_makes_the_same_sum_and_nearly_the_same_head(
    home: Path,
) -> None:
    """OpenBLAS takes the kernels of an older processor: another fingerprint, really."""
    if platform_fingerprint()["blas"] != "openblas" or os.uname().machine != "x86_64":
        pytest.skip("only OpenBLAS on x86_64 can be told to take other kernels")
    command = "from fleetledger.coordinator.cli.ledger import app; app()"
    finished = subprocess.run(
        [sys.executable, "-c", command, "replay", "--all", "--home", str(home)],
        env={**os.environ, "OPENBLAS_CORETYPE": "Nehalem"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    states = [line.split("\t")[2] for line in finished.stdout.splitlines()[:-1]]
    assert set(states) <= {"equal", "within tolerance"}
