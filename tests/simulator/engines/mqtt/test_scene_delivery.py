"""How pictures with masks get into a folder, as an agent's scan then finds them."""

import threading
from contextlib import closing
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.core.inputs import Scanned
from fleetledger.device_agent.kinds import SCENES
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.masks import decode_mask, load_mask_classes
from fleetledger.device_agent.samples.sources.scene_folder import SceneFolder
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES, MASKS
from fleetledger.device_agent.samples.sources.shown_classes import ShownCache
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.mqtt.delivery import hand_over, prepare
from fleetledger.simulator.engines.paths import index_of, make_folders, mask_path, sample_path
from tests.simulator.datasets.segmentation.making import random_scenes

SAMPLES = TaskScenes.of(random_scenes(12, classes=9, size=(5, 4)), ((3, 0, 8), (5,), (1, 2)))


def of_task(task: int) -> dict[int, PurePosixPath]:
    indices = np.flatnonzero(SAMPLES.task_of == task).tolist()
    return {index: PurePosixPath(sample_path(SAMPLES, task, index)) for index in indices}


def deliver(folder: Path, paths: dict[int, PurePosixPath]) -> None:
    prepare(folder, SAMPLES, paths)
    hand_over(folder)


def scan(folder: Path) -> Scanned:
    """Scan as somebody does for whom all files are old."""
    with (
        closing(DigestCache(folder.with_name("digests"))) as cache,
        closing(ShownCache(folder.with_name("shown"))) as shown,
    ):
        return SceneFolder(folder, cache, shown, clock=lambda: 1e12).scan()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_folders(tmp_path / "data", SCENES)
    return tmp_path / "data"


def test_scenes_come_back_from_the_files_pixel_by_pixel(folder: Path):
    deliver(folder, of_task(1))
    found = scan(folder)
    assert not found.problems
    assert [image.path for image in found.images] == sorted(map(str, of_task(1).values()))
    classes = load_mask_classes(folder / CLASSES)
    for path in of_task(1).values():
        mask = decode_mask((folder / mask_path(path)).read_bytes())
        wanted = SAMPLES.scene(index_of(str(path)))
        assert np.array_equal(Image.open(folder / path), wanted.picture)
        assert np.array_equal(mask, wanted.mask)
        assert set(np.unique(mask)) <= {*classes.names, 0, 255}


def test_a_device_is_told_the_classes_of_its_own_masks_alone(folder: Path):
    deliver(folder, of_task(2))
    assert load_mask_classes(folder / CLASSES).names == {6: SAMPLES.class_names[5]}
    deliver(folder, of_task(1))
    assert load_mask_classes(folder / CLASSES).names == {
        label + 1: SAMPLES.class_names[label] for label in (0, 3, 5, 8)
    }
    one = {index: path for index, path in of_task(3).items() if SAMPLES.shown(index) == (1,)}
    assert one
    deliver(folder, one)
    assert 2 in load_mask_classes(folder / CLASSES).names
    assert 3 not in load_mask_classes(folder / CLASSES).names


def test_a_picture_of_two_tasks_is_two_scenes(folder: Path):
    deliver(folder, of_task(1))
    deliver(folder, of_task(2))
    found = scan(folder)
    assert len(found.images) == len(of_task(1)) + len(of_task(2))
    assert len({image.digest for image in found.images}) == len(found.images)
    assert not found.problems


def test_a_delivery_that_was_broken_off_is_finished_by_another(folder: Path):
    wanted = of_task(1)
    deliver(folder, dict(list(wanted.items())[:3]))
    last = list(wanted.values())[2]
    (folder / last).unlink()  # its mask came, the picture did not
    prepare(folder, SAMPLES, wanted)
    deliver(folder, wanted)
    assert len(scan(folder).images) == len(wanted)
    assert not scan(folder).problems
    assert not folder.with_name(".data").exists()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    deliver(folder, wanted)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_nobody_meets_a_picture_without_its_mask_or_a_mask_without_its_classes(folder: Path):
    """Somebody who looks all the time sees each picture with its mask, whose values are named."""
    seen, ended = [], threading.Event()

    def look() -> None:
        while not ended.is_set():
            pictures = {path.name for path in (folder / IMAGES).iterdir()}
            masks = {path.name for path in (folder / MASKS).iterdir()}
            named = set(load_mask_classes(folder / CLASSES).names) if masks else set()
            seen.append(pictures <= masks and (not masks or bool(named)))

    looker = threading.Thread(target=look)
    looker.start()
    for task in (1, 2, 3):
        deliver(folder, of_task(task))
    ended.set()
    looker.join()
    assert all(seen)
    assert len(seen) > 3
