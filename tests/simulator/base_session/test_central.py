"""The weights after a central first stage: what decides them, and where they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.simulator.base_session.central import dealt
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.network_meter import NetworkMeter
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.trainer import trainer_of
from tests.simulator.engines.mqtt.small import Quiet
from tests.simulator.rounds.small import distilling, small

pytestmark = pytest.mark.torch

EPOCHS = 6


class Listening(Quiet):
    """Counts the epochs that it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = 0

    def phase(self, text: str) -> None:
        self.epochs += "epoch" in text


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path))
    return tmp_path / "base-sessions"


def made(seed: int = 1, **sections: Any) -> tuple[Prepared, int]:
    """Return what a seed begins with, and the epochs that it took now."""
    watch = Listening()
    what = PreparedSeed.load(distilling(**sections), seed).prepare(watch)
    return what, watch.epochs


def test_the_network_knows_the_first_stage_and_its_head_has_its_rows() -> None:
    what, epochs = made()
    trainer = trainer_of(what.scenario)
    assert trainer is not None
    assert what.base is not None
    side = training_coordinator("dcid")
    assignment: Any = side.assign(trainer.seeded(1), (1, 8, 8))
    _, names = decode_weights(what.base, assignment.network)
    assert names == what.plan.names(what.plan.stages[0].classes)
    settings = assignment.model_dump(mode="json")
    found = NetworkMeter(what).accuracy("dcid", settings, what.base, what.plan.seen(1))
    assert found > 0.9
    assert epochs == EPOCHS


def test_all_runs_that_agree_in_what_decides_it_share_one_file(cache: Path) -> None:
    first, _ = made()
    basic = {"settings": {"preset": "dcil-icarl-fedavg"}}
    for sections in ({}, {"method": basic}, {"rounds": {"per_stage": 1}}):
        again, epochs = made(**sections)
        assert epochs == 0
        assert again.base == first.base
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    "sections",
    [
        {"method": {"base": {"epochs": EPOCHS, "batch": 8, "rate": 0.05}}},
        {"method": {"settings": {"preset": "dcid-tpcil"}}},
        {"data": {"per_class": 11}},
        {"stages": {"order": "seeded"}},
        {"backbone": {"size": 16}},
    ],
)
def test_another_protocol_head_or_set_of_images_has_weights_of_its_own(
    sections: dict[str, Any],
) -> None:
    first, _ = made()
    other, epochs = made(**sections)
    assert epochs == EPOCHS
    assert other.base != first.base


def test_it_learns_every_image_that_any_device_has_and_no_other() -> None:
    what, _ = made()
    train = what.split.train
    expected = np.flatnonzero(np.isin(train.labels, what.plan.stages[0].classes))
    np.testing.assert_array_equal(dealt(what), expected)


def test_a_damaged_file_is_told_with_the_way_out(cache: Path) -> None:
    made()
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(EngineError, match=r"damaged: .*; delete it, and run again"):
        made()


def test_methods_that_learn_the_first_stage_themselves_have_none() -> None:
    assert PreparedSeed.load(small(), 1).prepare(Quiet()).base is None
    federated = distilling(method={"settings": {"base": "federated"}})
    assert PreparedSeed.load(federated, 1).prepare(Quiet()).base is None
