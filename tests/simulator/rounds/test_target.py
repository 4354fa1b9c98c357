"""TARGET in a simulated fleet: engines agree, and the ledger makes the synthetic images again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.methods.rounds.assignment import SYNTHETIC
from fleetledger.simulator.engines import rounds
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from tests.coordinator.replay.stories import replay
from tests.simulator.engines.test_same_records import flat
from tests.simulator.engines.test_same_records import learn as records_of
from tests.simulator.rounds.small import learn, prepared, small

pytestmark = pytest.mark.torch

SETTINGS = {
    "preset": "target",
    "network": "convnet",
    "generator": {"images": 24, "batch": 16, "steps": 3, "latent": 8, "width": 4},
}


def test_engines_agree_and_replay_makes_the_images_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = rounds.round_rules
    kept = {"retention": "all", "keep_weights": "all"}
    monkeypatch.setattr(rounds, "round_rules", lambda *of: usual(*of).model_copy(update=kept))
    what = prepared(small(rounds={"per_stage": 2}, method={"settings": SETTINGS}))
    _, told = learn(what, tmp_path / "kept")
    averaged = [body for body in told if isinstance(body, WeightsAveraged)]
    assert [SYNTHETIC in body.extras for body in averaged] == [False, True, True, True]
    assert averaged[1].extras[SYNTHETIC] == averaged[2].extras[SYNTHETIC]
    assert averaged[2].extras[SYNTHETIC] != averaged[3].extras[SYNTHETIC]
    code, out = replay(tmp_path / "kept" / "coordinator", "--all")
    assert code == 0, out
    assert {line.split("\t")[2] for line in out.splitlines()[:-1]} == {"equal"}
    assert out.count(SYNTHETIC) == 3
    engines = (InProcessEngine, LightEngine)
    one, other = (records_of(make, what, tmp_path / make.__name__) for make in engines)
    assert [flat(record) for record in one] == [flat(record) for record in other]
