"""How images get into a folder that somebody scans meanwhile."""

import threading
import time
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import SETTLE_SECONDS, FolderSource
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.engines.mqtt.delivery import deliver
from tests.device_agent.scripted import eventually

NAMES = tuple(ClassName(name) for name in ("ant", "bee", "cat", "dog"))


def noise(number: int) -> LabelledImages:
    """Return different images of all classes in turn."""
    pixels = np.arange(number * 16, dtype=np.uint32).view(np.uint8).reshape(number, 8, 8)
    return LabelledImages(pixels, np.arange(number) % len(NAMES), NAMES)


def paths(samples: LabelledImages, indices: range, stage: int) -> dict[int, PurePosixPath]:
    return {
        i: PurePosixPath(samples.class_names[samples.labels[i]], f"stage-{stage:02}-{i:06}.png")
        for i in indices
    }


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.png")}


def test_images_come_back_from_the_files_pixel_by_pixel(tmp_path: Path):
    samples = noise(40)
    wanted = paths(samples, range(40), 1)
    deliver(tmp_path / "data", samples, wanted)
    for index, path in wanted.items():
        read = np.asarray(Image.open(tmp_path / "data" / path))
        assert np.array_equal(read, samples.images[index])


def test_a_later_delivery_joins_classes_that_are_there(tmp_path: Path):
    samples, folder = noise(40), tmp_path / "data"
    first, second = paths(samples, range(20), 1), paths(samples, range(20, 40), 2)
    deliver(folder, samples, first)
    deliver(folder, samples, second)
    assert files(folder) == {str(path) for path in (*first.values(), *second.values())}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_delivery_that_was_broken_off_is_finished_by_another(tmp_path: Path):
    samples, folder = noise(40), tmp_path / "data"
    wanted = paths(samples, range(40), 1)
    deliver(folder, samples, paths(samples, range(10), 1))
    (tmp_path / ".data" / "ant").mkdir(parents=True)
    (tmp_path / ".data" / "ant" / "half.png").write_bytes(b"\x89PNG")
    before = {path: (folder / path).stat().st_mtime_ns for path in list(wanted.values())[:10]}
    deliver(folder, samples, wanted)
    assert files(folder) == {str(path) for path in wanted.values()}
    assert {path: (folder / path).stat().st_mtime_ns for path in before} == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_nothing_to_deliver_leaves_everything_as_it_is(tmp_path: Path):
    deliver(tmp_path / "data", noise(4), {})
    assert list(tmp_path.iterdir()) == []


def test_only_a_delivery_that_nobody_watches_counts_at_the_first_scan(tmp_path: Path):
    samples = noise(8)
    for name, settled, expected in (("watched", False, (0, 8)), ("unwatched", True, (8, 0))):
        deliver(tmp_path / name, samples, paths(samples, range(8), 1), settled=settled)
        scanned = FolderSource(tmp_path / name, DigestCache(tmp_path / f"{name}.db")).scan()
        assert (len(scanned.images), scanned.unsettled) == expected


class SlowToWrite(LabelledImages):
    """So slow that its first files are old when the last one is written."""

    def picture(self, index: int) -> Image.Image:
        if index == len(self) - 1:
            time.sleep(SETTLE_SECONDS + 0.1)
        return super().picture(index)


def test_a_scan_meanwhile_finds_all_of_a_delivery_or_something_to_wait_for(tmp_path: Path):
    """The first two classes have files already; the other two folders come with the delivery."""
    samples, folder = noise(2_000), tmp_path / "data"
    slow = SlowToWrite(samples.images, samples.labels, samples.class_names)
    old = [i for i in range(400) if samples.labels[i] < 2]
    everything = paths(samples, range(2_000), 1)
    deliver(folder, samples, {i: everything[i] for i in old})
    scans = []
    done = threading.Event()

    def scan() -> None:
        source = FolderSource(folder, DigestCache(tmp_path / "digests.db"))
        while not done.is_set():
            scans.append(source.scan())

    scanning = threading.Thread(target=scan)
    scanning.start()
    deliver(folder, slow, {i: everything[i] for i in range(400, 2_000)})

    def at_rest() -> list[int]:
        return [len(scanned.images) for scanned in list(scans) if not scanned.unsettled]

    eventually(lambda: at_rest()[-1:] == [len(old) + 1_600])
    done.set()
    scanning.join()
    assert set(at_rest()) == {len(old), len(old) + 1_600}
    assert at_rest() == sorted(at_rest())
    assert not any(scanned.problems for scanned in scans)


def test_moving_thousands_of_files_is_quick(tmp_path: Path):
    samples = noise(6_000)
    began = time.process_time()
    deliver(tmp_path / "data", samples, paths(samples, range(6_000), 1))
    assert time.process_time() - began < 10
    stamps = [path.stat().st_mtime for path in (tmp_path / "data").rglob("*.png")]
    assert max(stamps) - min(stamps) < SETTLE_SECONDS / 2
