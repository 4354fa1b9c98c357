"""What a folder of scenes shows, on a real disk and with a real cache."""

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.core.inputs import Scanned
from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.samples.sources import scene_folder as module
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.scene_folder import SceneFolder
from fleetledger.device_agent.samples.sources.shown_classes import ShownCache, ShownClasses, look_at
from fleetledger.schemas.values import Digest
from tests.device_agent.samples.sources.drawing import index_png, picture, save

CLASSES = '[classes]\n1 = "cat"\n2 = "dog"\n9 = "owl"\n'


def mask_of(*values: int) -> np.ndarray:
    """A mask of 6 x 5 pixels whose first ones have these values; the rest is background."""
    mask = np.zeros(30, np.uint8)
    mask[: len(values)] = values
    return mask.reshape(6, 5)


class Watched:
    """A folder of scenes, looked at as if an hour had gone by; every look opens the caches anew."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.folder = root, root / "data"
        self.read: list[int] = []
        monkeypatch.setattr(module, "look_at", self._look_at)
        self.write("one", 2, 2, 2, 1, 255)
        self.write("june/two", 1)
        self.name(CLASSES)

    def _look_at(self, data: bytes) -> ShownClasses:
        self.read.append(len(data))
        return look_at(data)

    def name(self, text: str) -> None:
        (self.folder / "classes.toml").write_text(text)

    def write(self, name: str, *values: int) -> None:
        seed = len(list(self.folder.rglob("*.png")))
        save(picture(seed), self.folder / "images" / f"{name}.png")
        self.draw(name, *values)

    def draw(self, name: str, *values: int) -> None:
        save(index_png(mask_of(*values)), self.folder / "masks" / f"{name}.png")

    def scan(self) -> Scanned:
        self.read.clear()
        digests, shown = DigestCache(self.root / "digests.db"), ShownCache(self.root / "masks.db")
        try:
            return SceneFolder(self.folder, digests, shown, lambda: time.time() + 3600).scan()
        finally:
            digests.close()
            shown.close()

    def classes(self) -> dict[str, tuple[str, ...]]:
        return {image.path: (image.class_name, *image.others) for image in self.scan().images}

    def told(self) -> list[str]:
        return [problem.text for problem in self.scan().problems]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


def test_a_scene_counts_under_the_class_with_most_pixels(watched: Watched) -> None:
    watched.write("three", 9, 1, 2)
    assert watched.classes() == {
        "images/june/two.png": ("cat",),
        "images/one.png": ("dog", "cat"),
        "images/three.png": ("cat", "dog", "owl"),
    }
    assert watched.told() == []


def test_a_mask_is_read_once_also_after_a_restart(watched: Watched) -> None:
    watched.scan()
    assert len(watched.read) == 2
    watched.write("three", 9)
    watched.scan()
    assert len(watched.read) == 1
    watched.scan()
    assert watched.read == []


def test_a_renamed_class_has_its_new_name_at_once_and_no_mask_is_read(watched: Watched) -> None:
    before = {image.path: image.digest for image in watched.scan().images}
    watched.name(CLASSES.replace("dog", "fox"))
    found = watched.scan()
    assert {image.path: image.digest for image in found.images} == before
    assert watched.classes()["images/one.png"] == ("fox", "cat")
    assert watched.read == []


def test_a_mended_mask_is_another_scene(watched: Watched) -> None:
    before = watched.scan().images
    watched.draw("one", 9, 9)
    after = watched.scan().images
    assert [image.class_name for image in after] == ["cat", "owl"]
    assert after[0] == before[0]
    assert after[1].digest != before[1].digest
    assert len(watched.read) == 1


def test_the_cache_forgets_masks_that_are_gone(watched: Watched) -> None:
    watched.scan()
    (watched.folder / "masks" / "one.png").unlink()
    watched.scan()
    cache = ShownCache(watched.root / "masks.db")
    assert len(cache) == 1
    cache.close()


def test_a_value_without_a_name_is_told_once_for_all_masks_until_it_has_one(
    watched: Watched,
) -> None:
    watched.draw("one", 7, 1)
    watched.write("zoo", 7)
    watched.write("yak", 1, 8)
    assert list(watched.classes()) == ["images/june/two.png"]
    assert watched.told() == [
        "masks/one.png and others: no class has the value 7; write its class into classes.toml, "
        "or mend the mask",
        "masks/yak.png: no class has the value 8; write its class into classes.toml, or mend the "
        "mask",
    ]
    watched.name(CLASSES + '7 = "cow"\n8 = "yak"\n')
    assert watched.classes()["images/zoo.png"] == ("cow",)
    assert watched.told() == []
    assert watched.read == []


def test_masks_without_any_class_are_told_in_one_sentence(watched: Watched) -> None:
    for number in range(5):
        watched.write(f"bare {number}", *[255] * number)
    assert len(watched.classes()) == 2
    (told,) = watched.told()
    assert told == (
        "masks: nothing but background and 255 in masks/bare 0.png and others; such scenes show "
        "no class and are left out"
    )


def test_a_damaged_mask_is_told_and_not_read_again_until_it_changes(watched: Watched) -> None:
    path = watched.folder / "masks" / "one.png"
    path.write_bytes(path.read_bytes()[:-30])
    (told,) = watched.told()
    assert told.startswith("masks/one.png: ")
    assert "the picture is damaged" in told
    assert told.endswith("left out until it changes")
    assert len(watched.told()) == 1
    assert watched.read == []
    watched.draw("one", 2)
    assert watched.classes()["images/one.png"] == ("dog",)


def test_what_is_no_mask_is_told(watched: Watched) -> None:
    save(picture(3), watched.folder / "masks" / "one.png")
    (told,) = watched.told()
    assert "a PNG of mode RGB" in told


def test_a_mask_that_changes_while_it_is_looked_at_waits_for_the_next_scan(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(_path: Path) -> bytes:
        return b"written in between"

    with monkeypatch.context() as patched:
        patched.setattr(module, "read_limited", other)
        assert watched.scan() == Scanned(())
    assert len(watched.scan().images) == 2


def test_a_mask_of_absurd_size_is_told(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetledger.device_agent.samples.images.MAX_FILE_BYTES", 10)
    assert all("bytes exceed 10" in told for told in watched.told())
    assert len(watched.told()) == 2


def test_without_names_nothing_is_decided(watched: Watched) -> None:
    watched.name("[classes]\n")
    with pytest.raises(SourceError, match=r"classes\.toml: "):
        watched.scan()
    (watched.folder / "classes.toml").unlink()
    with pytest.raises(SourceError, match="write one that says"):
        watched.scan()


def test_a_folder_that_is_empty_yet_needs_no_names(watched: Watched) -> None:
    (watched.folder / "classes.toml").unlink()
    for path in watched.folder.rglob("*.png"):
        path.unlink()
    assert watched.scan() == Scanned(())


def test_a_broken_cache_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "masks.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(SourceError, match=r"masks\.db: .*delete this file"):
        ShownCache(path)


def test_what_a_mask_shows_comes_back_as_it_was_put(tmp_path: Path) -> None:
    shown = {
        Digest.of(b"1"): ShownClasses({0: 5, 7: 25}),
        Digest.of(b"2"): ShownClasses(fault="torn"),
    }
    cache = ShownCache(tmp_path / "masks.db")
    for digest, item in shown.items():
        cache.put(digest, item)
    cache.close()
    again = ShownCache(tmp_path / "masks.db")
    assert {digest: again.get(digest) for digest in shown} == shown
    again.close()


def test_pixels_are_counted_as_a_slow_loop_counts_them(tmp_path: Path) -> None:
    mask = np.random.default_rng(5).integers(0, 256, (40, 30)).astype(np.uint8)
    data = save(Image.fromarray(mask), tmp_path / "mask.png").read_bytes()
    slow: dict[int, int] = {}
    for value in mask.ravel().tolist():
        slow[value] = slow.get(value, 0) + 1
    assert look_at(data).pixels == slow
