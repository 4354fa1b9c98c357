"""Pictures with masks in a folder of a device, on a real disk."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.core.inputs import Scanned
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.samples.images import ChangedError, read_sample, scene_digest
from fleetledger.device_agent.samples.sources import folder as folder_module
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.scene_folder import SceneFolder
from fleetledger.device_agent.samples.sources.scenes import scene_files
from fleetledger.device_agent.samples.sources.shown_classes import ShownCache
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import sized_pixels
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName, Digest
from tests.device_agent.samples.sources.drawing import (
    CLASSES,
    index_png,
    picture,
    save,
    values,
    write_scene,
)

WHOLE = Preprocessing(
    mode="RGB", size=(6, 5), mean=(0.0,) * 3, deviation=(1.0,) * 3, input_name="image"
)
"""The size of what is drawn."""


class Watched:
    """A data folder, looked at as if an hour had gone by."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.cache_path = root / "digests.db"
        self.later = 3600.0
        write_scene(self.folder, "b", seed=1)
        write_scene(self.folder, "june/a", seed=2)
        (self.folder / "classes.toml").write_text(CLASSES)

    def scan(self) -> Scanned:
        cache, shown = DigestCache(self.cache_path), ShownCache(self.cache_path.with_name("shown"))
        try:
            return SceneFolder(self.folder, cache, shown, lambda: time.time() + self.later).scan()
        finally:
            cache.close()
            shown.close()

    def file(self):
        """The files of scene b as they are now."""
        parts = (self.folder / part / "b.png" for part in ("images", "masks"))
        digest = scene_digest(*(Digest.of(path.read_bytes()) for path in parts))
        image = ImageToCount("images/b.png", digest, ClassName("cat"))
        (file,) = scene_files([image], self.folder)
        return file

    def read(self):
        return read_sample(self.file(), WHOLE, sized_pixels)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_scenes_are_found_by_name(watched: Watched) -> None:
    found = watched.scan()
    assert [image.path for image in found.images] == ["images/b.png", "images/june/a.png"]
    assert (found.problems, found.unsettled) == ((), 0)


def test_a_picture_may_have_another_format_than_its_mask(watched: Watched) -> None:
    save(picture(3), watched.folder / "images" / "c.JPG")
    save(index_png(values(3)), watched.folder / "masks" / "c.png")
    assert watched.scan().images[1].path == "images/c.JPG"


def test_a_scene_is_read_as_it_was_drawn(watched: Watched) -> None:
    shown, mask = watched.read()
    assert np.array_equal(np.asarray(shown), np.asarray(picture(1)))
    assert np.array_equal(mask, values(1))
    assert mask.dtype == np.uint8


def test_the_digest_covers_picture_and_mask(watched: Watched) -> None:
    digests = {watched.scan().images[0].digest}
    save(index_png(values(8)), watched.folder / "masks" / "b.png")
    digests.add(watched.scan().images[0].digest)
    save(picture(8), watched.folder / "images" / "b.png")
    digests.add(watched.scan().images[0].digest)
    assert len(digests) == 3
    one, other = Digest.of(b"1"), Digest.of(b"2")
    assert scene_digest(one, other) != scene_digest(other, one)


def test_a_renamed_scene_has_its_digest_still(watched: Watched) -> None:
    before = watched.scan().images[0].digest
    for part in ("images", "masks"):
        (watched.folder / part / "b.png").rename(watched.folder / part / "z.png")
    found = {image.path: image.digest for image in watched.scan().images}
    assert found["images/z.png"] == before


def test_a_rescan_hashes_only_what_is_new(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = watched.scan()
    hashed: list[str] = []
    original = folder_module.file_digest

    def counting(path: Path) -> Digest:
        hashed.append(f"{path.parent.name}/{path.name}")
        return original(path)

    monkeypatch.setattr(folder_module, "file_digest", counting)
    assert watched.scan() == first
    assert hashed == []
    save(index_png(values(8)), watched.folder / "masks" / "b.png")
    watched.scan()
    assert hashed == ["masks/b.png"]


def test_a_picture_or_a_mask_alone_is_a_problem_and_hides_no_other(watched: Watched) -> None:
    (watched.folder / "masks" / "june" / "a.png").unlink()
    save(index_png(values(3)), watched.folder / "masks" / "c.png")
    found = watched.scan()
    assert [image.path for image in found.images] == ["images/b.png"]
    assert [told.text for told in found.problems] == [
        "images/june/a.png: has no mask; put masks/june/a.png beside it, or remove it",
        "masks/c.png: has no picture; put images/c.png there, or remove it",
    ]


def test_two_pictures_of_one_name_are_a_problem(watched: Watched) -> None:
    save(picture(3), watched.folder / "images" / "b.jpg")
    found = watched.scan()
    assert len(found.images) == 2
    (told,) = found.problems
    assert told.text.startswith("images/b.png: has the name of images/b.jpg")


def test_a_scene_waits_while_its_mask_is_being_written(watched: Watched) -> None:
    for path in watched.folder.rglob("*.png"):
        os.utime(path, (1000, 1000))
    os.utime(watched.folder / "masks" / "b.png")
    watched.later = 0.0
    found = watched.scan()
    assert [image.path for image in found.images] == ["images/june/a.png"]
    assert found.unsettled == 1


def test_an_unreadable_mask_is_a_problem(watched: Watched, monkeypatch) -> None:
    original = folder_module.file_digest

    def failing(path: Path) -> Digest:
        if path.parent.name == "masks":
            raise PermissionError(13, "Permission denied")
        return original(path)

    monkeypatch.setattr(folder_module, "file_digest", failing)
    found = watched.scan()
    assert [image.path for image in found.images] == ["images/june/a.png"]
    (told,) = found.problems
    assert told.text.startswith("masks/b.png: cannot be read: Permission denied")


@pytest.mark.parametrize("part", ["images", "masks"])
def test_a_missing_folder_is_an_error_and_not_an_empty_one(watched: Watched, part: str) -> None:
    shutil.rmtree(watched.folder / part)
    with pytest.raises(SourceError, match=rf"{part}: there is no such folder; mount it"):
        watched.scan()


def test_a_mask_of_another_size_is_named(watched: Watched) -> None:
    save(index_png(values(0, 5, 6)), watched.folder / "masks" / "b.png")
    with pytest.raises(ImageError, match=r"^mask: 5 x 6 .* picture of 6 x 5"):
        watched.read()


def test_files_that_do_not_decode_are_named(watched: Watched) -> None:
    (watched.folder / "images" / "b.png").write_bytes(b"nothing")
    with pytest.raises(ImageError, match=r"^image: 7 bytes"):
        watched.read()
    save(picture(1), watched.folder / "images" / "b.png")
    save(picture(1), watched.folder / "masks" / "b.png")
    with pytest.raises(ImageError, match=r"^mask: a PNG of mode RGB"):
        watched.read()
    (watched.folder / "masks" / "b.png").write_bytes(b"nothing")
    with pytest.raises(ImageError, match=r"^mask: 7 bytes"):
        watched.read()


def test_a_value_without_a_class_is_no_fault_of_the_files(watched: Watched) -> None:
    (watched.folder / "classes.toml").write_text('[classes]\n1 = "cat"\n')
    with pytest.raises(ChangedError, match=r"masks/b\.png: has a value without a class"):
        watched.read()


def test_a_file_that_changed_since_the_scan_is_not_read(watched: Watched) -> None:
    file = watched.file()
    save(Image.fromarray(values(9)), watched.folder / "masks" / "b.png")
    with pytest.raises(ChangedError, match="changed"):
        read_sample(file, WHOLE, sized_pixels)
    (watched.folder / "masks" / "b.png").unlink()
    with pytest.raises(ChangedError, match="No such file"):
        read_sample(file, WHOLE, sized_pixels)
