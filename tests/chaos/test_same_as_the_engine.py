"""An undisturbed fleet ends with the model that the engine of every other simulation gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.material import prepare
from tests.chaos.runs import run_undisturbed
from tests.simulator.engines.inprocess.small import fleet_of, learn_all


@pytest.mark.parametrize(
    "form",
    [
        "exact",
        *(pytest.param(form, marks=pytest.mark.nightly) for form in ("compact", "estimated")),
    ],
)
def test_real_pictures_and_networks_give_the_engine_s_aggregate_and_head(
    tmp_path: Path, form: str
) -> None:
    prepared = fleet_of(tmp_path / "features", form, devices={"count": 3})
    last = learn_all(prepared, tmp_path / "engine")[-1]
    material = prepare(prepared.scenario, tmp_path / "material")
    end = run_undisturbed(material, tmp_path / "fleet")
    assert (end.aggregate, end.head) == (last.aggregate, last.head)
    assert end.class_names == last.model_classes
