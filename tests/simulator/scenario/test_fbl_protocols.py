"""Scenarios of FBL are its protocols: classes, devices, shares, rounds, and what was printed."""

from __future__ import annotations

import pytest

from fleetledger.simulator.plan.stages import divide_classes
from fleetledger.simulator.scenario.loading import load_scenario
from tests.simulator.plan.making import names
from tests.simulator.plan.segmentation.task_setting import TaskSetting

PROTOCOLS = [
    ("voc-fbl-15-1", 20, "15-1", 6, 24),
    ("voc-fbl-4-4", 20, "4-4", 6, 24),
    ("voc-fbl-8-2", 20, "8-2", 6, 24),
    ("ade20k-fbl-100-10", 150, "100-10", 12, 12),
]


@pytest.mark.parametrize(("name", "classes", "setting", "epochs", "batch"), PROTOCOLS)
def test_it_is_the_papers_protocol(
    name: str, classes: int, setting: str, epochs: int, batch: int
) -> None:
    scenario, expected = load_scenario(name), TaskSetting.read(setting)
    assert divide_classes(scenario.stages, names(classes), 1) == divide_classes(
        expected.stages(classes), names(classes), 1
    )
    assert scenario.devices == expected.devices()
    assert (scenario.rounds.per_stage, scenario.rounds.cohort) == (5, 4)
    given = scenario.method.settings
    assert (given["network"], given["epochs"], given["batch"], given["crop"]) == (
        "deeplabv3_resnet101_stride16",
        epochs,
        batch,
        512,
    )
    assert scenario.backbone.shape == (512, 512)


@pytest.mark.parametrize("name", [protocol[0] for protocol in PROTOCOLS])
def test_printed_curves_have_a_number_for_every_task_and_end_with_the_final_one(name: str) -> None:
    scenario = load_scenario(name)
    labels = [curve.label for curve in scenario.published]
    assert labels[0] == "FBL"
    assert len(set(labels)) == 7
    for curve in scenario.published:
        if curve.accuracy:
            assert len(curve.accuracy) == scenario.stages.total
            assert curve.accuracy[-1] == curve.final
    finals = [curve.final for curve in scenario.published]
    assert max(final for final in finals if final is not None) == finals[0]


@pytest.mark.parametrize("name", ["digits-fbl", "camvid-fbl"])
@pytest.mark.parametrize("preset", ["fbl", "without-apl", "without-fsc", "without-frc"])
def test_small_ones_take_every_ablation(name: str, preset: str) -> None:
    scenario = load_scenario(name, [f"method.settings.preset={preset}"])
    assert scenario.method.settings["preset"] == preset


@pytest.mark.parametrize("preset", ["finetuning", "lwf", "ilt", "mib", "plop", "rcil"])
def test_the_digits_take_every_rival_as_they_say(preset: str) -> None:
    alone = f"method.settings.preset={preset}"
    scenario = load_scenario("digits-fbl", [alone, "method.settings.unsure=background"])
    assert scenario.method.settings["preset"] == preset
    assert "--set method.settings.unsure=background" in scenario.description
