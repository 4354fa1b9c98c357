"""Pictures with masks at the size of a network, beside the same read one by one."""

import numpy as np
import pytest
from PIL import Image

from learning.numerics.preprocessing import sized_mask, sized_pixels
from schemas.models import Preprocessing
from simulator.datasets.segmentation.tasks import TaskScenes
from simulator.errors import DatasetError
from simulator.virtual import scenes as module
from simulator.virtual.scenes import SizedScenes
from tests.simulator.datasets.segmentation.making import random_scenes

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


@pytest.mark.parametrize("tasks", [(1,), (1, 3), (1, 2, 3)])
def test_masks_name_the_classes_that_a_device_has(sized: SizedScenes, tasks: tuple[int, ...]):
    chosen = indices(*tasks)
    pictures, named = sized.with_masks(chosen)
    assert np.array_equal(sized(chosen), pictures)
    assert named.masks is not None
    assert list(named.class_names) == sorted(
        {SAMPLES.class_names[label] for index in chosen for label in SAMPLES.shown(index)}
    )
    for row, index in enumerate(chosen):
        scene = SAMPLES.scene(index)
        picture = Image.fromarray(np.ascontiguousarray(scene.picture.transpose(1, 2, 0)))
        assert np.array_equal(pictures[row].transpose(1, 2, 0), sized_pixels(picture, SEEN))
        expected = sized_mask(scene.mask, SEEN)
        for value, name in enumerate(named.class_names, start=1):
            in_the_set = SAMPLES.class_names.index(name) + 1
            assert np.array_equal(named.masks[row] == value, expected == in_the_set)
        for value in (0, 255):
            assert np.array_equal(named.masks[row] == value, expected == value)
        assert set(np.unique(named.masks[row])) <= {0, 255, *range(1, 1 + len(named.class_names))}


def test_a_scene_of_several_tasks_shows_in_each_what_is_its_own(sized: SizedScenes):
    scene = next(n for n in range(8) if set(SAMPLES.task_of[SAMPLES.scene_of == n]) == {1, 2, 3})
    both = [int(i) for i in np.flatnonzero(SAMPLES.scene_of == scene)]
    pictures, named = sized.with_masks(both)
    assert named.masks is not None
    assert all(np.array_equal(picture, pictures[0]) for picture in pictures)
    shown = [set(np.unique(mask)) - {0, 255} for mask in named.masks]
    assert not shown[0] & shown[1]
    assert not shown[1] & shown[2]


def test_nothing_is_no_error(sized: SizedScenes):
    pictures, named = sized.with_masks([])
    assert pictures.shape == (0, 3, 9, 8)
    assert named.masks is not None
    assert named.masks.shape == (0, 9, 8)
    assert named.class_names == ()


def test_a_picture_that_cannot_be_used_is_told():
    narrow = SEEN.model_copy(update={"resize": "shorter_side_crop", "shorter_side": 8_000})
    with pytest.raises(DatasetError, match="a picture cannot be used"):
        SizedScenes(SAMPLES, narrow)([0])
