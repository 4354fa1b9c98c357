"""FBL with real programs: Mosquitto, a coordinator, three agents with torch, two tasks of scenes.

One agent has scenes of both tasks; one has none of the second and only looks; one joins when the
second task has begun, and takes the old model from the coordinator.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES, MASKS
from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.training_fleet import EveryTrainingFleet, TrainingFleet, running

pytest.importorskip("sklearn.datasets")
pytestmark = [
    *(pytest.mark.torch, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1200)),
    # By day: programs that train, LGA and DCID; scenes on a device, device_agent/models/scenes;
    # two tasks of them learned by whole agents, simulator/rounds/test_scenes.py.
    pytest.mark.nightly,
]

BOTH, OLD, NEWCOMER = DEVICES = TrainingFleet.devices
FIRST, SECOND = ("0", "1"), ("2", "3")
ROUNDS = 3
SIDE = 32
SCENES = SceneSettings(train=300, test=30, height=SIDE, width=SIDE, fewest=3, most=4, scales=(2,))
SETTINGS = f"""\
[method]
name = "fbl"

[method.settings]
network = "small_dense"
detection = "stage"
epochs = 6
batch = 8
first_rate = 0.1
rate = 0.05
unsure = "ignore"
share_start = 0.8

[rounds]
per_stage = {ROUNDS}
deadline_seconds = 90
"""
PREPROCESSING = f"""\
mode = "RGB"
size = [{SIDE}, {SIDE}]
mean = [0.5, 0.5, 0.5]
deviation = [0.25, 0.25, 0.25]
input_name = "image"
"""


class Fleet(TrainingFleet):
    """Three devices that look at scenes of digits; masks show the classes of one task.

    A network that says background everywhere has an IoU of 0 for every class.
    """

    name = "scenes"
    settings = SETTINGS
    rounds_of_stage = ROUNDS
    knows = ((1, FIRST, 0.2), (2, FIRST, 0.15), (2, SECOND, 0.08))

    def set_up(self) -> None:
        """Make all homes, put the first task's scenes in, and start two agents."""
        self.make_homes()
        split = split_digit_scenes(SCENES, seed=1)
        self._train, self._test = split.train, split.test
        for device in DEVICES:
            self._look_at_scenes(device)
            put_scenes(
                self.folder / device / "evaluation", self._test, range(20), (*FIRST, *SECOND)
            )
        for number, device in enumerate((BOTH, OLD)):
            self.bring(device, number, FIRST)
        self.start_coordinator()
        for device in (BOTH, OLD):
            self.start_agent(device)

    def bring(self, device: str, part: int, names: Sequence[str]) -> None:
        """Let scenes that show these classes come to a device: a third of all such."""
        there = self._train.labels[:, [int(name) for name in names]].any(axis=1)
        chosen = np.flatnonzero(there)[part::3]
        put_scenes(self.folder / device / "data", self._train, chosen.tolist(), names)

    def import_scenes(self) -> None:
        """Begin a lineage on scenes."""
        described = self.folder / "scenes.toml"
        described.write_text(PREPROCESSING, encoding="utf-8")
        self.operator("model", "import-network", "--preprocessing", str(described))

    def measured(self, version: int, names: Sequence[str]) -> list[float]:
        """Return the mean IoU that each device found of a model on its own test scenes."""
        found = []
        for body in self.evaluations(version):
            results = [body.results[ClassName(name)] for name in names]
            found.append(sum(item.correct / item.total for item in results) / len(results))
        return found

    def _look_at_scenes(self, device: str) -> None:
        home = self.folder / device
        path = home / "agent.toml"
        before = path.read_text(encoding="utf-8")
        after = before.replace('samples = "pictures"', 'samples = "scenes"')
        assert after != before
        path.write_text(after, encoding="utf-8")
        for part in (IMAGES, MASKS):
            (home / "data" / part).mkdir(parents=True)


def put_scenes(
    folder: Path, scenes: SegmentedImages, indices: Sequence[int], names: Sequence[str]
) -> None:
    """Write pictures, the masks that show these classes alone, and their names."""
    for part in (IMAGES, MASKS):
        (folder / part).mkdir(parents=True, exist_ok=True)
    known = folder / CLASSES
    text = known.read_text(encoding="utf-8") if known.exists() else "[classes]\n"
    lines = [f'{int(name) + 1} = "{name}"\n' for name in names if f'"{name}"' not in text]
    known.write_text(text + "".join(lines), encoding="utf-8")
    for index in indices:
        scene = scenes.scene(index)
        mask = show_classes(scene.mask, [int(name) for name in names])
        name = f"{'-'.join(names)}-{index}.png"
        Image.fromarray(mask, "L").save(folder / MASKS / name)
        scene.picture.save(folder / IMAGES / name)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    """A fleet that has learned two tasks, the second with a device that joined in its middle."""
    with running(Fleet, tmp_path_factory, mosquitto) as made:
        made.set_up()
        made.until_there(2)
        made.import_scenes()
        made.open_stage(FIRST)
        made.until_measured(1, 2)
        made.bring(BOTH, 0, SECOND)
        made.open_stage(SECOND)
        made.until(lambda: ROUNDS + 1 in made.averaged())
        made.signal(BOTH, signal.SIGSTOP)  # the round under way waits for it
        made.bring(NEWCOMER, 2, SECOND)
        made.start_agent(NEWCOMER)
        made.until_there(len(DEVICES))
        made.signal(BOTH, signal.SIGCONT)
        made.until_measured(2)
        yield made


class TestLikeEveryFleet(EveryTrainingFleet):
    """What holds of every fleet that trains."""


def test_who_has_no_scenes_of_a_task_looks_and_does_not_train(fleet: Fleet) -> None:
    assert set(fleet.answers(1)) == {BOTH, OLD}
    assert set(fleet.answers(ROUNDS + 1)) == {BOTH}
    for number in range(ROUNDS + 1, 2 * ROUNDS + 1):
        assert OLD not in fleet.answers(number)


def test_a_newcomer_trains_with_the_coordinators_old_model(fleet: Fleet) -> None:
    later = [body for _, body in fleet.entries(RoundOpened) if NEWCOMER in body.cohort]
    assert later
    for body in later:
        assert body.extras["old-model"].digest == last_model_of_first_task(fleet)
    assert NEWCOMER in fleet.answers(later[-1].number)


def last_model_of_first_task(fleet: Fleet) -> str:
    return fleet.averaged()[ROUNDS].weights.digest


def test_models_answer_with_pixels(fleet: Fleet) -> None:
    found = [body for _, body in fleet.entries(DeviceEvaluated) if body.evaluation.version == 2]
    assert found
    for body in found:
        assert body.answers == "pixels"
        assert set(body.evaluation.results) == {BACKGROUND, *FIRST, *SECOND}


def test_a_devices_owner_sees_what_its_model_makes_of_a_picture(fleet: Fleet) -> None:
    home = fleet.folder / OLD
    picture = next((home / "evaluation" / IMAGES).glob("*.png"))
    out = fleet.folder / "seen"
    fleet.agent("segment", OLD, str(picture), "--out", str(out))
    mask = next(path for path in sorted(out.rglob("*.png")) if Image.open(path).mode == "P")
    with Image.open(mask) as found:
        assert found.size == (SIDE, SIDE)
        assert np.asarray(found).max() <= len(FIRST) + len(SECOND)


def test_a_models_rounds_can_be_made_again_from_the_ledger(fleet: Fleet) -> None:
    assert "equal" in fleet.operator("ledger", "replay", "--all")
