"""Pictures with masks at the size of a network, beside what an agent reads from its folder."""

from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.models.training import read_scenes
from fleetledger.device_agent.samples.images import scene_digest
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.mqtt.delivery import hand_over, prepare
from fleetledger.simulator.engines.paths import mask_path, sample_path
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.virtual import pictures as module
from fleetledger.simulator.virtual.scenes import SizedScenes
from tests.simulator.datasets.segmentation.making import random_pictures, random_scenes

TASKS = ((4, 2, 9), (7,), (1, 11))
SAMPLES = TaskScenes.of(random_scenes(8, classes=12, size=(10, 12)), TASKS)
SEEN = Preprocessing(
    mode="RGB",
    size=(9, 8),
    mean=(0.0,) * 3,
    deviation=(1.0,) * 3,
    input_name="image",
)


@pytest.fixture(params=["kept", "read again"])
def sized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SizedScenes:
    if request.param == "read again":
        monkeypatch.setattr(module, "KEPT_BYTES", 0)
    return SizedScenes(SAMPLES, SEEN)


def indices(*tasks: int) -> list[int]:
    """Return some samples of tasks, in an order of their own."""
    return [int(i) for i in np.flatnonzero(np.isin(SAMPLES.task_of, tasks))[::-2]]


def read_by_an_agent(folder: Path, samples: TaskScenes, chosen: list[int]) -> LocalData:
    """Return what an agent trains on whose folder has these samples and no others."""
    paths = {i: PurePosixPath(sample_path(samples, int(samples.task_of[i]), i)) for i in chosen}
    prepare(folder, samples, paths)
    hand_over(folder)
    images = []
    for index in chosen:
        picture = paths[index]
        files = (folder / path for path in (picture, mask_path(picture)))
        digest = scene_digest(*(Digest.of(path.read_bytes()) for path in files))
        images.append(ImageToCount(str(picture), digest, ClassName("any")))
    return read_scenes(images, folder, SEEN, {}).data


@pytest.mark.parametrize("tasks", [(1,), (1, 3), (1, 2, 3)])
def test_a_device_in_memory_has_what_an_agent_reads_from_its_folder(
    sized: SizedScenes, tasks: tuple[int, ...], tmp_path: Path
):
    chosen = indices(*tasks)
    shown, read = sized.shown(chosen), read_by_an_agent(tmp_path / "data", SAMPLES, chosen)
    assert np.array_equal(shown.pictures, read.inputs)
    assert np.array_equal(shown.masks, read.masks)
    assert shown.class_names == read.class_names
    assert shown.mask_class_names == read.mask_class_names
    assert np.array_equal(sized(chosen)[shown.rows], shown.pictures)
    assert len(shown.rows) == len(chosen)


def test_what_is_too_small_to_be_seen_is_left_out_and_most_is_counted_at_that_size(tmp_path: Path):
    masks = np.zeros((3, 90, 80), np.uint8)
    masks[0, 41, 41] = 1  # a pixel between those that are taken
    masks[1, :10, :8] = 2
    masks[2, :, :8] = 2
    masks[2, ::10, 20:] = masks[2, 1::10, 20:] = 1  # more pixels, in rows that are not taken
    scenes = SegmentedImages(
        random_pictures(3, (90, 80)), masks, (ClassName("pear"), ClassName("apple"))
    )
    samples = TaskScenes.of(scenes, ((0, 1),))
    assert samples.labels.tolist() == [0, 1, 0]
    shown = SizedScenes(samples, SEEN).shown([0, 1, 2])
    assert shown.rows.tolist() == [1, 2]
    assert shown.class_names == ("apple", "apple")
    read = read_by_an_agent(tmp_path / "data", samples, [0, 1, 2])
    assert (read.class_names, read.mask_class_names) == (shown.class_names, shown.mask_class_names)
    assert np.array_equal(read.masks, shown.masks)


def test_a_scene_of_several_tasks_shows_in_each_what_is_its_own(sized: SizedScenes):
    scene = next(n for n in range(8) if set(SAMPLES.task_of[SAMPLES.scene_of == n]) == {1, 2, 3})
    all_three = [int(i) for i in np.flatnonzero(SAMPLES.scene_of == scene)]
    shown = sized.shown(all_three)
    assert all(np.array_equal(picture, shown.pictures[0]) for picture in shown.pictures)
    values = [set(np.unique(mask)) - {0, 255} for mask in shown.masks]
    assert not values[0] & values[1]
    assert not values[1] & values[2]


def test_nothing_is_no_error(sized: SizedScenes):
    shown = sized.shown([])
    assert shown.pictures.shape == (0, 3, 9, 8)
    assert shown.masks.shape == (0, 9, 8)
    assert (shown.class_names, shown.mask_class_names) == ((), ())


def test_a_picture_that_cannot_be_used_is_told():
    narrow = SEEN.model_copy(update={"resize": "shorter_side_crop", "shorter_side": 8_000})
    with pytest.raises(DatasetError, match="a picture cannot be used"):
        SizedScenes(SAMPLES, narrow)([0])
