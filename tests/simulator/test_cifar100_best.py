"""The scenario `cifar100-best` as it ships: on small made-up pictures, and on the real ones."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from rich.console import Console

from fleetledger.export.mobilenet_v2 import random_weights
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import FEATURES, SCORES
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.npz import save_npz
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.run.folder import SeedFolder
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.run.seed_run import run_seed
from fleetledger.simulator.scenario.loading import load_scenario

CLASSES, TRAIN, TEST = 6, 12, 6
LAYERS, WIDTH = ["features.1.conv.0", "features.3.conv.1"], 32 + 144
SMALL = ["stages.count=2", "backbone.size=32", f"backbone.layers={LAYERS}"]
"""Early layers are narrow, and what lies behind them is left out of the file."""
WHOLE = "FLEETLEDGER_BEST"


def part(each: int, seed: int) -> LabelledImages:
    """Return coarse pictures: each class has a colour for the left and one for the right half."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), each)
    colours = np.random.default_rng(0).integers(0, 256, (CLASSES, 1, 2, 3))
    halves = colours[labels].repeat(16, axis=2).repeat(32, axis=1)
    noise = rng.integers(-20, 21, (len(labels), 32, 32, 3))
    names = tuple(ClassName(f"class {label}") for label in range(CLASSES))
    return LabelledImages(np.clip(halves + noise, 0, 255).astype(np.uint8), labels, names)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    save_npz(folder / "cifar100.npz", Split(part(TRAIN, 1), part(TEST, 2)))
    safetensors.numpy.save_file(random_weights(), folder / "mobilenet_v2.safetensors")
    return folder


def run(
    out: Path, monkeypatch: pytest.MonkeyPatch, data: Path, *changes: str
) -> tuple[StageRecord, AnyAnswers]:
    """Run the first seed without a report; return its last record, and all answers."""
    monkeypatch.setenv("FLEETLEDGER_DATA", str(data))
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(out / "cache"))
    screen = Screen(Console(quiet=True), seeds=1)
    prepared = PreparedSeed.load(load_scenario("cifar100-best", changes), 1).prepare(screen)
    folder = SeedFolder(out / "seed-1")
    folder.root.mkdir()
    records, answers = run_seed(prepared, folder, make_engine, screen)
    return records[-1], answers


def accuracy(answers: AnyAnswers) -> float:
    assert isinstance(answers, Answers)
    return float((answers.predictions[-1] == answers.labels).mean())


def test_every_division_over_devices_gives_the_same_sums_and_the_same_head(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skewed, answers = run(tmp_path / "skewed", monkeypatch, data, *SMALL)
    even = ("devices.partition.rule=iid", "devices.count=3")
    pooled, _ = run(tmp_path / "even", monkeypatch, data, *SMALL, *even)
    assert skewed.aggregate == pooled.aggregate
    assert skewed.head == pooled.head
    assert accuracy(answers) > 0.5
    folder = tmp_path / "skewed" / "seed-1" / "model"
    manifest = json.loads((folder / "manifest.json").read_text())
    pictures = np.random.default_rng(3).normal(size=(2, 3, 32, 32)).astype(np.float32)
    frozen = LoadedModel((folder / "frozen.onnx").read_bytes())
    (features,) = frozen.run({"image": pictures}).values()
    (mirrored,) = frozen.run({"image": pictures[..., ::-1].copy()}).values()
    assert features.shape == (2, WIDTH)
    assert np.abs(features - mirrored).max() <= 1, "a rounding step at most"
    head = LoadedModel((folder / "head.onnx").read_bytes())
    assert head.run({FEATURES: features})[SCORES].shape == (2, len(manifest["class_names"]))


def test_on_cifar_100_it_reaches_what_the_page_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.environ.get(WHOLE)
    if not folder or not Path(folder, "cifar100.npz").is_file():
        pytest.skip(f"{WHOLE} names no folder with cifar100.npz and mobilenet_v2.safetensors")
    _, answers = run(tmp_path / "run", monkeypatch, Path(folder))
    assert accuracy(answers) >= 0.62
