"""Every scenario that ships starts and trains one tiny step, whatever of its files is missing.

What takes longest and repeats another one's method is left to the night.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.learning.networks.network import Shape
from fleetledger.learning.networks.registry import NETWORKS, KnownNetwork
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.simulator.run.absent_files import absent_here
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.scenario_list import EXPORTED_BY_TORCH
from fleetledger.simulator.scenario.shipped import shipped_names
from fleetledger.simulator.scenario.tiny import NO_RESULT, tiny_step
from fleetledger.simulator.scenario.trainer import JOINT, trainer_of

BY_DAY = frozenset(
    {
        "cifar100-dcid-5",
        "omniglot",
        "voc-fbl-4-4",
    }
)
"""One of each method, and of each kind of data; the others by night. LGA is in `test_every_study`,
FedHAF, on texts too, in `tests/simulator/text`.
"""
OWN_NETWORK = frozenset({"ade20k-fbl-100-10", "voc-fbl-15-1"})
"""Of those with a ResNet-101, which takes minutes: the others train a small network here."""
OWN_TRANSFORMER = frozenset({"imagenet-r-stsa"})
"""Of those with a ViT-B/16, which takes most of a minute and five gigabytes."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    scenario = load_scenario(name)
    found = [] if name in BY_DAY else [pytest.mark.nightly]
    if trainer_of(scenario) is not None or scenario.backbone.network in EXPORTED_BY_TORCH:
        found.append(pytest.mark.torch)
    if scenario.backbone.network == "torchvision":
        found.append(pytest.mark.torchvision)
    return found


def small_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the smallest of the same kind in the place of the large ones."""
    for name, lora in (("vit_b_16", 0), ("vit_b_16_lora", 2)):
        smallest = VisionTransformer(32, 16, 24, blocks=1, heads=3, hidden=32, adapter=8, lora=lora)

        def body(shape: Shape, smallest: VisionTransformer = smallest) -> VisionTransformer:
            return replace(smallest, side=shape[1])

        monkeypatch.setitem(NETWORKS._own, name, KnownNetwork(body, base="vit_b_16"))


def tiny(scenario: Scenario) -> Scenario:
    """Return the step in one process, where a scenario asks for programs."""
    step = tiny_step(scenario, absent_here(scenario)).scenario
    if step.engine.kind == "inprocess":
        return step
    engine = step.engine.model_copy(update={"kind": "inprocess", "broker": "auto", "keys": False})
    evaluation = step.evaluation.model_copy(update={"on_devices": False})
    return step.model_copy(update={"engine": engine, "evaluation": evaluation})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks(name)) for name in shipped_names()]
)
def test_it_starts_and_trains_one_tiny_step(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    whole = load_scenario(name)
    large = str(whole.method.settings.get("network")).startswith("deeplabv3_resnet101")
    if large and name not in OWN_NETWORK:
        whole = load_scenario(name, ["method.settings.network=small_dense"])
    if name not in OWN_TRANSFORMER:
        small_transformers(monkeypatch)
    step = tiny(whole)
    results = run_scenario(step, tmp_path / "run", Console(file=io.StringIO()))
    assert len(results.first.stages) == step.stages.total
    folder = RunFolder.open(tmp_path / "run")
    rounds = [done for stage in folder.seed(step.seeds[0]).records() for done in stage.rounds]
    assert bool(rounds) == (trainer_of(step) is not None and step.method.name != JOINT)
    assert all(done.counted >= 1 and (done.steps is None or done.steps >= 1) for done in rounds)
    assert NO_RESULT in folder.scenario.read_text().lower()
    assert NO_RESULT in (tmp_path / "run" / "report.html").read_text().lower()
