"""Scenes as a method trains on them: real files, at the network's size."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.home.store.blobs import file_digest
from fleetledger.device_agent.models.training import ReadImages, read_scenes
from fleetledger.device_agent.samples.images import read_pictures, scene_digest
from fleetledger.device_agent.samples.sources.scenes import scene_files
from fleetledger.learning.numerics.preprocessing import preprocess, sized_pixels
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName
from tests.device_agent.models.scenes import dense
from tests.device_agent.models.scenes.dense import BLUE, COLOUR, GREEN, RED, blocks, put_scene
from tests.device_agent.samples.sources.drawing import index_png, save


class Album:
    """A folder of scenes as a scan found it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        dense.name_classes(folder)
        put_scene(folder, "a", blocks(1, 1, 2, 255))
        put_scene(folder, "deep/b", blocks(0, 3, height=40, width=50))
        put_scene(folder, "c", blocks(2, 2, 0))
        self.images = [self.image(name) for name in ("a", "c", "deep/b")]

    def image(self, name: str) -> ImageToCount:
        picture, mask = (self.folder / part / f"{name}.png" for part in ("images", "masks"))
        digest = scene_digest(file_digest(picture), file_digest(mask))
        return ImageToCount(f"images/{name}.png", digest, RED)

    def read(
        self,
        spec: Preprocessing = COLOUR,
        aliases: dict[ClassName, ClassName] | None = None,
    ) -> ReadImages:
        return read_scenes(self.images, self.folder, spec, aliases or {})


@pytest.fixture
def album(tmp_path: Path) -> Album:
    return Album(tmp_path / "data")


def slow_mask(mask: np.ndarray, spec: Preprocessing) -> np.ndarray:
    height, width = spec.size
    return np.array(
        [
            [mask[int((y + 0.5) * len(mask) / height), int((x + 0.5) * mask.shape[1] / width)]
             for x in range(width)]
            for y in range(height)
        ]
    )  # fmt: skip


def test_pictures_and_masks_come_at_the_networks_size(album: Album) -> None:
    data = album.read().data
    assert data.inputs.shape == (3, 3, *COLOUR.size)
    assert data.masks is not None
    assert (data.masks.dtype, data.masks.shape) == (np.uint8, (3, *COLOUR.size))
    for row, image in enumerate(album.images):
        picture = (album.folder / image.path).read_bytes()
        assert np.array_equal(data.inputs[row].transpose(1, 2, 0), sized_pixels(picture, COLOUR))
    # Values are places in the sorted names: blue, green, red.
    assert data.mask_class_names == (BLUE, GREEN, RED)
    given = {0: 0, 1: 3, 2: 2, 3: 1, 255: 255}
    drawn = np.vectorize(given.get)(blocks(0, 3, height=40, width=50))
    assert np.array_equal(data.masks[2], slow_mask(drawn, COLOUR))
    assert set(np.unique(data.masks[0])) == {2, 3, 255}


def test_a_row_has_the_scenes_digest_and_the_class_with_most_pixels(album: Album) -> None:
    read = album.read()
    assert read.data.digests == tuple(image.digest for image in album.images)
    assert read.data.class_names == (RED, GREEN, BLUE)
    assert (read.unusable, read.trouble) == ((), "")


def test_classes_have_their_new_names_and_those_of_one_name_are_one(album: Album) -> None:
    put_scene(album.folder, "d", blocks(1, 2, 3))
    album.images = [album.image("d")]
    assert album.read().data.class_names == (BLUE,)  # as many pixels as red, first by name
    merged = album.read(aliases={GREEN: RED, BLUE: ClassName("sky")}).data
    assert merged.mask_class_names == (RED, ClassName("sky"))
    assert merged.class_names == (RED,)
    assert np.array_equal(np.unique(merged.masks), [1, 2])
    assert (merged.masks == 1).mean() == pytest.approx(2 / 3)


def test_a_scene_that_is_gone_or_was_mended_since_the_scan_is_left_out(album: Album) -> None:
    save(index_png(blocks(3)), album.folder / "masks" / "a.png")
    (album.folder / "masks" / "c.png").unlink()
    read = album.read()
    assert read.data.digests == (album.images[2].digest,)
    assert (read.unusable, read.trouble) == ((), "")
    album.images[0] = album.image("a")
    assert album.read().data.class_names == (BLUE, BLUE)
    (album.folder / "images" / "a.png").unlink()
    assert len(album.read().data) == 1


def broken(album: Album, part: str, content: bytes) -> tuple[str, ReadImages]:
    """Write bytes over a file of scene a, and read what a scan would find then."""
    (album.folder / part / "a.png").write_bytes(content)
    album.images[0] = album.image("a")
    read = album.read()
    assert len(read.data) == 2
    ((digest, reason),) = read.unusable
    assert digest == album.images[0].digest
    return reason, read


def test_files_that_do_not_decode_are_named(album: Album) -> None:
    path = album.folder / "masks" / "a.png"
    torn = path.read_bytes()[:-26]
    assert "mask: the picture is damaged" in broken(album, "masks", torn)[0]
    assert "image: 7 bytes" in broken(album, "images", b"nothing")[0]


def test_a_mask_of_another_size_is_named(album: Album) -> None:
    save(index_png(blocks(1, height=16, width=23)), album.folder / "masks" / "a.png")
    content = (album.folder / "masks" / "a.png").read_bytes()
    assert "mask: 16 x 23 pixels (height x width) beside" in broken(album, "masks", content)[0]


def test_a_picture_larger_than_the_limit_is_named(
    album: Album, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = album.folder / "images" / "a.png"
    Image.new("L", (12_801, 5_000)).save(wide)
    reason, _ = broken(album, "images", wide.read_bytes())
    assert "12801 x 5000 pixels exceed 64000000" in reason
    monkeypatch.setattr("fleetledger.device_agent.samples.images.MAX_FILE_BYTES", 10)
    read = album.read()
    assert len(read.data) == 0
    assert all("bytes exceed 10" in reason for _, reason in read.unusable)


def test_a_value_that_lost_its_name_is_no_fault_of_the_files(album: Album) -> None:
    dense.name_classes(album.folder, '[classes]\n1 = "red"\n2 = "green"\n')
    read = album.read()
    assert read.data.class_names == (RED, GREEN)
    assert read.unusable == ()
    dense.name_classes(album.folder)
    assert len(album.read().data) == 3
    (album.folder / "classes.toml").unlink()
    with pytest.raises(SourceError, match="there is no such file"):
        album.read()


def test_a_class_too_small_to_be_seen_is_told(album: Album) -> None:
    mask = np.zeros((160, 240), np.uint8)
    mask[0, 0] = 1
    put_scene(album.folder, "far", mask)
    album.images.append(album.image("far"))
    read = album.read()
    assert len(read.data) == 3
    assert read.unusable == ()
    assert read.trouble == (
        "images/far.png: what the mask shows is too small to be seen at 16 x 24 pixels, or cut "
        "off; left out of training"
    )


def test_a_crop_is_that_of_the_picture(album: Album) -> None:
    data = album.read(dense.CROPPED).data
    picture = (album.folder / "images" / "deep" / "b.png").read_bytes()
    sized = sized_pixels(picture, dense.CROPPED)
    assert np.array_equal(data.inputs[2].transpose(1, 2, 0), sized)
    blue = sized[:, :, 2] > 120
    assert (blue == (data.masks[2] == 1)).mean() > 0.9


def test_grey_networks_see_what_they_see_of_pictures_without_masks(album: Album) -> None:
    grey = COLOUR.model_copy(update={"mode": "L", "mean": (0.0,), "deviation": (1.0,)})
    data = album.read(grey).data
    picture = (album.folder / "images" / "a.png").read_bytes()
    assert np.array_equal(data.inputs[0][0], sized_pixels(picture, grey)[:, :, 0])


def test_pictures_alone_are_those_of_whole_scenes(album: Album) -> None:
    album.images[1] = replace(album.images[1], digest=album.images[0].digest)
    read = list(read_pictures(scene_files(album.images, album.folder), COLOUR))
    found = [outcome.pixels for outcome in read if outcome.pixels is not None]
    assert [outcome.index for outcome in read if outcome.pixels is not None] == [0, 2]
    expected = [
        preprocess((album.folder / image.path).read_bytes(), COLOUR)
        for image in (album.images[0], album.images[2])
    ]
    assert np.array_equal(found, expected)
