"""A scenario cut to a tiny step: what is cut, what stays, what stands in for what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fleetledger.simulator.run.absent_files import absent_here, classes_here
from fleetledger.simulator.scenario.loading import load_scenario, parse_scenario, scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.shipped import shipped_names
from fleetledger.simulator.scenario.tiny import NO_RESULT, TITLE, Absent, tiny_step

NOTHING_MISSES = Absent()
ALL_MISSES = Absent(data=True)


def cut(name: str, absent: Absent = ALL_MISSES, *overrides: str) -> Scenario:
    return tiny_step(load_scenario(name, overrides), absent).scenario


def kept(scenario: Scenario) -> dict[str, Any]:
    """Return what a scenario is about, whatever its size."""
    method, partition = scenario.method, scenario.devices.partition
    settings = method.settings
    named = ("preset", "mode", "network", "loss", "form", "map", "head", "base", "averaging")
    return {
        "method": method.name,
        "settings": {name: settings[name] for name in named if name in settings},
        "first": method.first_stage and method.first_stage.name,
        "rule": (partition.rule, partition.beta, partition.class_share),
        "groups": (scenario.devices.groups.rule, scenario.devices.groups.newcomers),
        "policy": scenario.devices.policy,
        "engine": scenario.engine,
        "detection": scenario.detection,
        "network": (scenario.backbone.network, scenario.backbone.name, scenario.backbone.layers),
        "with masks": scenario.data.known.kind.masked,
        "candidate": scenario.rollout and scenario.rollout.candidate.kind,
    }


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_scenario_is_cut_to_a_step_and_stays_what_it_is(name: str):
    whole = load_scenario(name)
    needed = whole.data.root is not None or not name.startswith(("digits", "demo", "text"))
    tiny = tiny_step(whole, Absent(data=needed)).scenario
    assert kept(tiny) == kept(whole)
    assert (len(tiny.seeds), tiny.rounds.per_stage) == (1, 1)
    assert tiny.stages.total <= 2
    assert tiny.devices.count <= 3
    assert tiny.published == ()
    assert tiny.title == TITLE + whole.title


def test_it_can_be_written_down_and_is_read_as_it_was():
    tiny = cut("cifar100-lga-10")
    assert parse_scenario("tiny", scenario_to_toml(tiny), Path("/")) == tiny


def test_a_tiny_step_of_a_tiny_step_differs_in_what_is_said_of_it_alone():
    once = cut("cifar100-dcid-5")
    twice = tiny_step(once, NOTHING_MISSES).scenario
    same = {"title": "x", "description": "x"}
    assert twice.model_copy(update=same) == once.model_copy(update=same)


def test_what_is_smaller_already_stays():
    tiny = cut("digits", NOTHING_MISSES, "devices.count=2", "method.settings.map_width=32")
    assert tiny.devices.count == 2
    assert tiny.method.settings["map_width"] == 32


def test_what_a_preset_sets_is_cut_too():
    """Mode `code` of LGA sets 250 steps of inversion, which the scenario does not name."""
    assert cut("cifar100-lga-10").method.settings["inversion_steps"] == 2


@pytest.mark.parametrize(
    ("name", "stand_in", "side"),
    [
        ("cifar100-lga-10", "patterns", (32, 32, 3)),
        ("omniglot", "patterns", (105, 105, 1)),
        ("voc-fbl-15-1", "digit-scenes", (375, 500)),
        ("shakespeare-fedhaf", "grammar", None),
    ],
)
def test_what_is_not_at_hand_is_made_up_in_its_size_and_said(
    name: str, stand_in: str, side: tuple[int, ...] | None
):
    whole = load_scenario(name)
    step = tiny_step(whole, ALL_MISSES)
    data = step.scenario.data
    assert (data.set, data.root) == (stand_in, None)
    sizes = {
        "patterns": (data.patterns.height, data.patterns.width, data.patterns.channels),
        "digit-scenes": (data.scenes.height, data.scenes.width),
    }
    assert sizes.get(stand_in) == side
    assert step.remarks[0] == NO_RESULT
    assert whole.data.set in step.remarks[1]
    assert whole.data.set in step.scenario.description


def test_data_that_are_at_hand_are_used_in_the_order_that_is_asked_for():
    tiny = cut("cifar100-lga-10", NOTHING_MISSES, "data.root=/data")
    assert (tiny.data.set, tiny.data.root, tiny.stages.order) == ("cifar100", "/data", "icarl")
    assert cut("cifar100-lga-10").stages.order == "as-is"


def test_weights_that_are_not_at_hand_are_random_ones_of_the_same_network():
    step = tiny_step(load_scenario("cifar100-fedhaf"), Absent(data=True, weights=True))
    backbone = step.scenario.backbone
    assert (backbone.network, backbone.name, backbone.weights) == ("torchvision", "resnet152", None)
    assert "resnet152 are random" in step.remarks[2]


def test_a_network_of_ones_own_that_is_not_at_hand_is_another_and_that_is_said():
    whole = load_scenario(
        "cifar100-stsa", ["backbone.network=file", "backbone.file=mine.onnx", "backbone.name=x"]
    )
    step = tiny_step(whole, Absent(data=True, file=True))
    assert (step.scenario.backbone.network, step.scenario.backbone.file) == ("mobilenet-v2", None)
    assert "mine.onnx is not at hand" in step.remarks[2]


def test_a_trunk_that_is_not_at_hand_is_random_and_that_is_said():
    whole = load_scenario("voc-fbl-15-1", ["method.trunk=resnet101.pth"])
    step = tiny_step(whole, Absent(data=True, trunk=True))
    assert step.scenario.method.trunk is None
    assert (
        "resnet101.pth is not at hand, so first weights of the trunk are random"
        in (step.remarks[2])
    )
    assert tiny_step(whole, ALL_MISSES).scenario.method.trunk is not None


def test_what_a_machine_has_is_found_by_its_files(tmp_path: Path):
    there = tmp_path / "there.npz"
    there.touch()
    found = [f"data.root={there}", f"backbone.weights={there}"]
    assert absent_here(load_scenario("cifar100-best", found)) == NOTHING_MISSES
    gone = [f"data.root={tmp_path}/gone", f"backbone.weights={tmp_path}/gone"]
    assert absent_here(load_scenario("cifar100-best", gone)) == Absent(data=True, weights=True)
    assert absent_here(load_scenario("digits")) == NOTHING_MISSES
    trunk = load_scenario("voc-fbl-15-1", [f"method.trunk={tmp_path}/gone"])
    assert absent_here(trunk) == Absent(data=True, trunk=True)


def test_a_data_set_of_few_classes_is_cut_to_those_that_it_has(tmp_path: Path):
    for name in ("train/apple", "train/pear", "train/plum", "test/apple"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "1.png")
    changes = ["data.set=image-folder", f"data.root={tmp_path}", "stages.count=3"]
    mine = load_scenario("digits", changes)
    assert classes_here(mine) == 3
    tiny = tiny_step(mine, absent_here(mine), classes_here(mine)).scenario
    assert (tiny.stages.classes, tiny.stages.count, tiny.stages.first) == (3, 2, 2)
    assert classes_here(load_scenario("digits", [*changes, "stages.classes=3"])) is None
    assert classes_here(load_scenario("digits")) is None


def test_listed_classes_stay_where_they_are_known():
    lists = 'stages.lists=[["1","2","3","4","5"],["6"],["7"]]'
    changes = ("stages.order=seeded", "stages.count=5", lists)
    tiny = cut("digits", NOTHING_MISSES, *changes)
    assert tiny.stages.lists == (("1", "2", "3", "4"), ("6",))


def test_devices_that_come_and_go_do_so_within_two_stages():
    changes = (
        "devices.absences=[{device=1, joins=2}, {device=2, leaves=2}, {device=3, joins=3}]",
        "stages.count=5",
    )
    tiny = cut("digits", NOTHING_MISSES, *changes)
    assert [absence.device for absence in tiny.devices.absences] == [1, 2]


def test_pictures_of_two_sides_keep_their_proportions():
    assert cut("camvid-fbl").backbone.size == (63, 84)
