"""Five networks that nobody here wrote, learned in two stages by agents over Mosquitto.

Each agent measures the ONNX files that it got on its own test samples; light agents answer alike.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fleetledger as fl
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, TemperatureFitted
from fleetledger.schemas.models import Manifest
from fleetledger.simulator.datasets.arrays import LabelledArrays
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.datasets.sensors import make_sensors
from fleetledger.simulator.metrics.answers import NO_ANSWER, Answers
from fleetledger.simulator.run.folder import SeedFolder, load_answers

pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("five_networks.py")


def learned(name: str, tmp_path: Path) -> tuple[SeedFolder, SeedFolder]:
    """Return the seed's folder of light agents, and that of programs."""
    folders = [str(tmp_path / engine) for engine in ("light", "programs")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "FLEETLEDGER_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",  # as agents have
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), name, *folders],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    light, programs = (SeedFolder(Path(folder) / "seed-1") for folder in folders)
    return light, programs


def answers_of(folder: SeedFolder) -> Answers:
    found = load_answers(folder.root / "predictions.npz")
    assert isinstance(found, Answers)
    return found


def entries(folder: SeedFolder, kind) -> list:
    with LedgerReader.open_read_only(ledger_path(folder.root / "coordinator")) as ledger:
        return [kind.model_validate(entry.body) for entry in ledger.find(kind)]


def told_by_devices(folder: SeedFolder, version: int) -> dict[str, tuple[int, int]]:
    """Return right answers and questions by class, of what agents measured of a model."""
    right, asked = Counter(), Counter()
    for body in entries(folder, DeviceEvaluated):
        if body.evaluation.version == version:
            right.update({name: one.correct for name, one in body.evaluation.results.items()})
            asked.update({name: one.total for name, one in body.evaluation.results.items()})
    return {name: (right[name], total) for name, total in asked.items()}


def counted(answers: Answers, row: int, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return the same of the answers of a run."""
    said, labels = answers.predictions[row], answers.labels
    asked = {int(label): labels == label for label in labels[said != NO_ANSWER]}
    return {names[k]: (int((said[at] == k).sum()), int(at.sum())) for k, at in asked.items()}


def asked_of(name: str) -> LabelledArrays | LabelledImages:
    if name in ("conv1d", "lstm"):
        return make_sensors(None, 1, train=40, test=20, people=4).test
    return split_digits(seed=1).test.at_most(20)


def frame_of(test: LabelledArrays | LabelledImages, index: int):
    return test.arrays[index] if isinstance(test, LabelledArrays) else test.picture(index)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "name",
    [
        "group_norm_cnn",
        pytest.param("mobilenet_v3_small", marks=pytest.mark.torchvision),
        pytest.param("vit", marks=pytest.mark.torchvision),
        "conv1d",
        "lstm",
    ],
)
def test_devices_run_the_network_as_onnx_and_answer_as_light_agents(
    name: str, tmp_path: Path
) -> None:
    light, programs = learned(name, tmp_path)
    test, answers = asked_of(name), answers_of(light)
    assert np.array_equal(answers.labels, test.labels)
    assert np.array_equal(answers.predictions, answers_of(programs).predictions)
    first, last = programs.records()
    for row, record in enumerate((first, last)):
        told = told_by_devices(programs, record.version)
        assert told == counted(answers, row, test.class_names)
        right, asked = (sum(each) for each in zip(*told.values(), strict=True))
        assert record.accuracy_on_devices == right / asked
        print(f"{name}, stage {record.stage}: {right / asked:.1%} of {asked}")  # noqa: T201
    assert last.accuracy_on_devices > 0.5  # of five classes
    # Light agents hold nothing out; what agents hold out may fit the next model's temperature.
    ours, theirs = (
        Manifest.read((run.model / "manifest.json").read_bytes()) for run in (light, programs)
    )
    fitted = [1.0]
    for each in entries(programs, TemperatureFitted):
        fitted += [each.logit_scale] if each.version == first.version else []
    assert theirs.frozen == ours.frozen
    assert (ours.logit_scale, theirs.logit_scale) == (1.0, fitted[-1])
    for home in (programs.root / "agents").iterdir():
        with fl.active_model(home) as model:
            assert model.version == last.version
            asked_here = np.flatnonzero(answers.predictions[1] != NO_ANSWER)
            said = model.classify_all([frame_of(test, index) for index in asked_here])
        names = [test.class_names[k] for k in answers.predictions[1][asked_here]]
        assert [answer.name for answer in said] == names
