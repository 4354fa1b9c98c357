"""Pictures with masks in a folder of a device, on a real disk."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.images import ChangedError
from fleetledger.device_agent.sources import folder as folder_module
from fleetledger.device_agent.sources.cache import DigestCache
from fleetledger.device_agent.sources.scenes import (
    ScannedScenes,
    SceneSource,
    decode_scene,
    read_files,
    scene_digest,
)
from fleetledger.learning.errors import ImageError
from fleetledger.schemas.values import Digest
from tests.device_agent.sources.drawing import (
    CLASSES,
    index_png,
    picture,
    save,
    values,
    write_scene,
)


class Watched:
    """A data folder, looked at as if an hour had gone by."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.cache_path = root / "digests.db"
        self.later = 3600.0
        write_scene(self.folder, "b", seed=1)
        write_scene(self.folder, "june/a", seed=2)
        (self.folder / "classes.toml").write_text(CLASSES)

    def scan(self) -> ScannedScenes:
        cache = DigestCache(self.cache_path)
        try:
            return SceneSource(self.folder, cache, lambda: time.time() + self.later).scan()
        finally:
            cache.close()

    def read(self, number: int = 0):
        scene = self.scan().scenes[number]
        return decode_scene(scene, *read_files(self.folder, scene), "RGB")


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_scenes_are_found_by_name(watched: Watched) -> None:
    found = watched.scan()
    assert [(scene.picture, scene.mask) for scene in found.scenes] == [
        ("images/b.png", "masks/b.png"),
        ("images/june/a.png", "masks/june/a.png"),
    ]
    assert (found.problems, found.unsettled) == ((), 0)


def test_a_picture_may_have_another_format_than_its_mask(watched: Watched) -> None:
    save(picture(3), watched.folder / "images" / "c.JPG")
    save(index_png(values(3)), watched.folder / "masks" / "c.png")
    assert watched.scan().scenes[1].picture == "images/c.JPG"


def test_a_scene_is_read_as_it_was_drawn(watched: Watched) -> None:
    shown, mask = watched.read()
    assert np.array_equal(np.asarray(shown), np.asarray(picture(1)))
    assert np.array_equal(mask, values(1))
    assert mask.dtype == np.uint8
    assert mask.flags.writeable


def test_the_digest_covers_picture_and_mask(watched: Watched) -> None:
    digests = {watched.scan().scenes[0].digest}
    save(index_png(values(8)), watched.folder / "masks" / "b.png")
    digests.add(watched.scan().scenes[0].digest)
    save(picture(8), watched.folder / "images" / "b.png")
    digests.add(watched.scan().scenes[0].digest)
    assert len(digests) == 3
    one, other = Digest.of(b"1"), Digest.of(b"2")
    assert scene_digest(one, other) != scene_digest(other, one)


def test_a_renamed_scene_has_its_digest_still(watched: Watched) -> None:
    before = watched.scan().scenes[0].digest
    for part in ("images", "masks"):
        (watched.folder / part / "b.png").rename(watched.folder / part / "z.png")
    found = {scene.picture: scene.digest for scene in watched.scan().scenes}
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
    assert [scene.picture for scene in found.scenes] == ["images/b.png"]
    assert [told.text for told in found.problems] == [
        "images/june/a.png: has no mask; put masks/june/a.png beside it, or remove it",
        "masks/c.png: has no picture; put images/c.png there, or remove it",
    ]


def test_two_pictures_of_one_name_are_a_problem(watched: Watched) -> None:
    save(picture(3), watched.folder / "images" / "b.jpg")
    found = watched.scan()
    assert len(found.scenes) == 2
    (told,) = found.problems
    assert told.text.startswith("images/b.png: has the name of images/b.jpg")


def test_a_scene_waits_while_its_mask_is_being_written(watched: Watched) -> None:
    for path in watched.folder.rglob("*.png"):
        os.utime(path, (1000, 1000))
    os.utime(watched.folder / "masks" / "b.png")
    watched.later = 0.0
    found = watched.scan()
    assert [scene.picture for scene in found.scenes] == ["images/june/a.png"]
    assert found.unsettled == 1


def test_an_unreadable_mask_is_a_problem(watched: Watched, monkeypatch) -> None:
    original = folder_module.file_digest

    def failing(path: Path) -> Digest:
        if path.parent.name == "masks":
            raise PermissionError(13, "Permission denied")
        return original(path)

    monkeypatch.setattr(folder_module, "file_digest", failing)
    found = watched.scan()
    assert [scene.picture for scene in found.scenes] == ["images/june/a.png"]
    (told,) = found.problems
    assert told.text.startswith("masks/b.png: cannot be read: Permission denied")


@pytest.mark.parametrize("part", ["images", "masks"])
def test_a_missing_folder_is_an_error_and_not_an_empty_one(watched: Watched, part: str) -> None:
    shutil.rmtree(watched.folder / part)
    with pytest.raises(SourceError, match=rf"{part}: there is no such folder; mount it"):
        watched.scan()


def test_a_mask_of_another_size_is_named(watched: Watched) -> None:
    save(index_png(values(0, 5, 6)), watched.folder / "masks" / "b.png")
    with pytest.raises(ImageError, match=r"masks/b.png: mask: 5 x 6 .* picture of 6 x 5"):
        watched.read()


def test_files_that_do_not_decode_are_named(watched: Watched) -> None:
    (watched.folder / "images" / "b.png").write_bytes(b"nothing")
    with pytest.raises(ImageError, match=r"^images/b.png: image: 7 bytes"):
        watched.read()
    save(picture(1), watched.folder / "images" / "b.png")
    save(picture(1), watched.folder / "masks" / "b.png")
    with pytest.raises(ImageError, match=r"^masks/b.png: mask: a PNG of mode RGB"):
        watched.read()


def test_a_file_that_changed_since_the_scan_is_not_read(watched: Watched) -> None:
    scene = watched.scan().scenes[0]
    save(Image.fromarray(values(9)), watched.folder / "masks" / "b.png")
    with pytest.raises(ChangedError, match="changed"):
        read_files(watched.folder, scene)
    (watched.folder / "masks" / "b.png").unlink()
    with pytest.raises(ChangedError, match="No such file"):
        read_files(watched.folder, scene)
