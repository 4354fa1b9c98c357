"""Rounds averaged again from the answers that retention kept: DCID's phases, answered by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import RoundRules, Rules
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models import network_maker
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from tests.coordinator.program import test_phases_at_the_desk
from tests.coordinator.program.test_phases_at_the_desk import Desk
from tests.coordinator.replay.stories import replay


def rules(retention: str) -> Rules:
    rounds = {"per_stage": 2, "gather_seconds": 0, "pause_seconds": 0.05, "quorum": 1.0}
    return Rules(rounds=RoundRules.model_validate({**rounds, "retention": retention}))


def learned(folder: Path, retention: str, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A stage of two rounds with two phases each, and the model of it."""
    monkeypatch.setattr(test_phases_at_the_desk, "RULES", rules(retention))
    desk = Desk(folder)
    for number in range(1, 5):
        order = desk.next_order(number)
        if number % 2:
            desk.train(order)
        else:
            desk.distil(order)
    desk.coordinator.until(lambda: ModelExported.kind in desk.coordinator.kinds())
    return desk


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    desk = learned(tmp_path, "all", monkeypatch)
    yield desk
    desk.close()


def averaged(desk: Desk) -> list[WeightsAveraged]:
    told = desk.told(WeightsAveraged)
    return [body for body in told if isinstance(body, WeightsAveraged)]


def test_every_phase_is_averaged_again_and_the_model_taken_from_the_last(kept: Desk) -> None:
    code, out = replay(kept.folder, "--all")
    lines = [line.split("\t") for line in out.splitlines()[:-1]]
    assert code == 0, out
    made = averaged(kept)
    assert [line[1] for line in lines] == [
        *(f"round {body.number}, phase {body.phase}" for body in made),
        "model 1",
    ]
    assert {line[2] for line in lines} == {"equal"}
    for line, body in zip(lines, made, strict=False):
        assert line[3].startswith(f"aggregate {body.aggregate.short}, weights ")
    assert "ensemble" in lines[0][3], "files that go with the weights are made again too"


def test_a_version_is_made_again_with_the_round_that_gave_it(kept: Desk) -> None:
    code, out = replay(kept.folder, "--version", "1")
    assert code == 0
    assert [line.split("\t")[1] for line in out.splitlines()[:-1]] == [
        "round 4, phase distil",
        "model 1",
    ]


def test_answers_that_retention_deleted_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = learned(tmp_path, "aggregates", monkeypatch)
    (answer, *_) = desk.told(ContributionAccepted)
    assert isinstance(answer, ContributionAccepted)
    code, out = replay(tmp_path, "--all")
    assert code == 0
    assert "round 1, phase train\tcannot be made again\tdeleted by retention: blob " in out
    assert f"blob {answer.part.payload} (contribution of entry " in out
    assert "model 1\tequal\tweights of entry " in out, "its weights are there"
    assert "4 cannot be made again, 1 equal" in out
    desk.close()


def test_weights_whose_stored_bytes_were_altered_are_found(kept: Desk) -> None:
    last = averaged(kept)[-1].weights.digest
    path = BlobStore(blob_folder(kept.folder)).local_path(last)
    if path is None:
        row = kept.coordinator.engine.ledger.db
        with row:
            row.execute("UPDATE blob SET content = x'00' WHERE digest = ?", [last])
    else:
        path.write_bytes(b"x")
    code, out = replay(kept.folder, "--version", "1")
    assert code == 1
    assert "round 4, phase distil\tdiffers\twhat is stored as weights is no longer" in out


def test_what_the_coordinator_trained_is_not_made_again_without_torch(
    kept: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.coordinator.replay.remaker.trains_here", lambda _: True)
    monkeypatch.setattr("fleetledger.coordinator.replay.remaker.find_spec", lambda _: None)
    code, out = replay(kept.folder, "--all")
    assert code == 0
    assert "cannot be made again\tit needs torch at the coordinator" in out
    assert replay(kept.folder, "--version", "1")[0] == 1


@pytest.mark.torch
def test_where_the_coordinator_trains_the_fingerprint_names_torch(kept: Desk) -> None:
    import torch

    here = network_maker.fingerprint_of(type("Trains", (), {"coordinator_trains": True})())
    assert here["torch"] == torch.__version__
    assert "torch" not in averaged(kept)[0].fingerprint, "nothing was trained here"
