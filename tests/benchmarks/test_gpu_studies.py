"""Studies of the GPU's command: how large they are, what their arms differ in, and going on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import run as command
from benchmarks.gpu import study_runs
from benchmarks.gpu.budget import Budget
from benchmarks.gpu.checkpoint import Checkpoint
from benchmarks.gpu.entries import Place
from benchmarks.gpu.footing import FOOTING, NAMES
from benchmarks.gpu.run import parsed, run, study
from benchmarks.gpu.studies import LGA_5, OVERHEAD, studies
from benchmarks.gpu.table import table
from benchmarks.papers.from_scratch.cases import ROWS, SCENARIO
from benchmarks.papers.packs.to_npz import encode
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.scenario.loading import load_scenario

pytestmark = pytest.mark.torch

TINY = Place("cpu", small=True)
ABOUT = {"device": "cpu", "small": True, "machine": {"torch": "2", "python": "3", "cpu": "one"}}


def arguments(tmp_path: Path, **more: object) -> Any:
    found = parsed(["--device", "cpu", "--small", "--out", str(tmp_path / "gpu.json")])
    for name, value in more.items():
        setattr(found, name, value)
    return found


def opened(tmp_path: Path) -> Checkpoint:
    return Checkpoint.opened(tmp_path / "gpu.json", ABOUT)


def test_a_study_takes_the_most_local_epochs_that_fit_and_one_at_least() -> None:
    one = LGA_5.steps_of_an_epoch(500) * 0.01 * OVERHEAD
    assert LGA_5.steps_of_an_epoch(500) == 2 * 3 * 10 * 10 * 63
    assert LGA_5.epochs_within(20 * one, 0.01, 500) == 20
    assert LGA_5.epochs_within(5.5 * one, 0.01, 500) == 5
    assert LGA_5.epochs_within(0.1 * one, 0.01, 500) == 1


def test_arms_are_the_shipped_protocol_and_differ_in_their_own_settings_alone() -> None:
    shipped = load_scenario(LGA_5.scenario)
    for arm in LGA_5.arms:
        changes = LGA_5.changes(arm, Path("/core.npz"), "cuda:1", epochs=2)
        found = load_scenario(LGA_5.scenario, changes)
        assert (found.devices, found.rounds) == (shipped.devices, shipped.rounds)
        assert found.stages.order == shipped.stages.order
        assert (found.stages.count, found.stages.classes) == (3, 60)
        own = {"epochs": 2, **LGA_5.settings, **arm.settings}
        assert dict(found.method.settings) == {**shipped.method.settings, **own}
        assert (found.engine.device, found.engine.bfloat16) == ("cuda", True)


def test_the_footing_from_scratch_has_its_own_devices_rounds_and_exemplars_in_full_size() -> None:
    shared = load_scenario(SCENARIO)
    for arm, name in zip(FOOTING.arms, NAMES, strict=True):
        changes = FOOTING.changes(arm, Path("/cifar100.npz"), "cuda", epochs=1)
        found = load_scenario(FOOTING.scenario, changes)
        assert (found.devices, found.rounds.per_stage) == (shared.devices, shared.rounds.per_stage)
        assert (found.stages.count, found.stages.classes, found.backbone.size) == (5, 100, 32)
        assert found.method.name == ROWS[name].method
        settings = found.method.settings
        assert (settings["network"], settings["epochs"]) == ("resnet18", 1)
        same = {"exemplars_per_class", "memory_per_class", "preset", "mode"} & settings.keys()
        assert {key: settings[key] for key in same} == {
            key: ROWS[name].settings[key] for key in same
        }
    assert FOOTING.steps_of_an_epoch(500) == 126_000


def test_a_study_goes_on_with_its_epochs_where_its_budget_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Path, float]] = []

    def carried_on(name: str, changes: list[str], folder: Path, seconds: float, **_: bool) -> Any:
        given.append((folder, seconds))
        if len(given) == 2:
            return {"accuracy": [50.0], "unfinished": True}
        return {"accuracy": [50.0, 40.0], "forgetting": 1.0}

    monkeypatch.setattr(study_runs, "carried_on", carried_on)
    options = arguments(tmp_path)
    monkeypatch.setattr(command, "studies", lambda: (LGA_5,))
    left = study(opened(tmp_path), TINY, options, Budget.starting(1e9))
    kept = opened(tmp_path)
    (size,) = [entry for entry in kept.entries.values() if "step_seconds" in entry]
    assert size["epochs"] == 20
    assert [name.split(", ")[1] for name in left] == ["without L_SD"]
    assert "| 50.0 | - | no |" in table({"about": ABOUT, "entries": kept.entries})
    assert study(kept, TINY, options, Budget.starting(0.3)) == []
    assert len(given) == 3
    assert given[2][0] == given[1][0] != given[0][0]
    assert given[2][1] <= 0.2
    ended = opened(tmp_path).entries
    assert sum("20 of 20 local epochs" in name for name in ended) == 2
    assert "| 50.0, 40.0 | - | yes |" in table({"about": ABOUT, "entries": ended})


def test_a_study_that_fails_or_lacks_its_data_leaves_the_rest_to_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise RunError("out: no room")

    monkeypatch.setattr(study_runs, "carried_on", broken)
    left = study(opened(tmp_path), TINY, arguments(tmp_path), Budget.starting(1e9))
    assert left == [*left[:2], FOOTING.name]
    assert opened(tmp_path).entries[left[0]]["failed"] == "RunError: out: no room"
    monkeypatch.setenv("FLEETLEDGER_DATA", str(tmp_path))
    told = study(opened(tmp_path), Place("cpu", small=False), arguments(tmp_path), Budget(1.0, 1.0))
    assert [line.partition(": ")[0] for line in told] == [one.name for one in studies()]
    assert "give --cifar100" in told[0]


def test_packs_become_the_simulators_file_once(tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 4, 4, 3)).astype(np.uint8)
    pack, made = tmp_path / "pack.npz", tmp_path / "made" / "cifar100.npz"
    labels, names = np.array([0, 1, 0, 1, 0, 1]), np.array(["ant", "bee"])
    arrays = {"x_delta": encode(images), "y": labels}
    parts = {f"{of}_{name}": value for of in ("train", "test") for name, value in arrays.items()}
    np.savez(pack, fine_names=names, **parts)
    assert study_runs.of_packs([pack], made) == made
    assert study_runs.images_of_class(made) == 3
    with np.load(made) as found:
        assert np.array_equal(found["train_x"], images)
    assert study_runs.of_packs([made], tmp_path / "other.npz") == made


@pytest.mark.nightly
def test_a_tiny_study_runs_on_the_processor_round_by_round(tmp_path: Path) -> None:
    words = ["--device", "cpu", "--small", "--only", "study", "--out", str(tmp_path / "gpu.json")]
    assert run(parsed([*words, "--budget", "0.5"])) == 0
    begun = json.loads((tmp_path / "gpu.json").read_text())["entries"].values()
    assert [entry for entry in begun if "unfinished" in entry]
    assert run(parsed([*words, "--budget", "600"])) == 0
    ended = json.loads((tmp_path / "gpu.json").read_text())["entries"].values()
    assert [len(entry["accuracy"]) for entry in ended if "accuracy" in entry] == [2] * 6
