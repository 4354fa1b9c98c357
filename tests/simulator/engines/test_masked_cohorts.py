"""Simulated fleets behind masks come to the model that they come to without, digest for digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from tests.simulator.engines.test_returning_classes import prepared
from tests.simulator.engines.test_same_records import learn

MASKS = ("privacy.masks=true", "privacy.least=3", "privacy.cohort=4")
SMALL = ("stages.count=2", "devices.count=7", "devices.dropout=0.0")
STATISTICS = ("method.settings.form=exact", "method.settings.map_width=32")
ROUNDS = (
    "method.settings.network=mlp",
    "method.settings.epochs=1",
    "rounds.per_stage=2",
    "devices.partition.least_images=4",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def bodies(folder: Path, kind: str) -> list[dict[str, Any]]:
    with LedgerReader.open_read_only(ledger_path(folder / "coordinator")) as ledger:
        return [entry.body for entry in ledger.entries() if entry.kind == kind]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("digits", (*SMALL, *STATISTICS)),
        (
            "digits",
            (
                *SMALL,
                "method.name=fed3r",
                "method.settings={}",
                "evaluation.pooled_reference=false",
            ),
        ),
        pytest.param("digits-fedavg", (*SMALL, *ROUNDS), marks=pytest.mark.torch),
    ],
)
def test_the_model_behind_masks_is_that_without(
    name: str, changes: tuple[str, ...], tmp_path: Path
) -> None:
    plain, masked = tmp_path / "plain", tmp_path / "masked"
    learn(InProcessEngine, prepared(name, *changes), plain)
    learn(InProcessEngine, prepared(name, *changes, *MASKS), masked)
    made = "weights.averaged" if name == "digits-fedavg" else "model.solved"
    found = [[body["aggregate"] for body in bodies(folder, made)] for folder in (plain, masked)]
    assert found[0]
    assert found[0] == found[1]
    cohorts = bodies(masked, "cohort.summed")
    assert sorted({len(body["members"]) for body in cohorts}) in ([3, 4], [7])
    given = [body["part"] for body in bodies(masked, "contribution.accepted")]
    assert all(part["payload_kind"] == "masked" and not part["samples"] for part in given)
