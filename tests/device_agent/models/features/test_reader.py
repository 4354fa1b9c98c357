"""Features of images: computed by ONNX Runtime once per sample, whatever happens to the file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.home.store.blobs import BlobFolder, file_digest
from fleetledger.device_agent.models.features.cache import FeatureCache
from fleetledger.device_agent.models.features.extractor import FrozenExtractor
from fleetledger.device_agent.models.features.reader import FeatureReader, ReadFeatures
from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    SessionSettings,
)
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.values import ClassName
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8, digest


class CountedSession(InferenceSession):
    """A real session that counts the images that it has seen."""

    seen = 0

    def run(self, output: str, batch: np.ndarray) -> np.ndarray:
        assert len(batch) <= 3, "more than a few images at a time"
        self.seen += len(batch)
        return super().run(output, batch)


class Room:
    """Seven pictures, a frozen model, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        models.put_pictures(self.folder, "dark", 1, 2, 3, 4)
        models.put_pictures(self.folder, "light", 5, 6, 7)
        blobs = BlobFolder(folder / "blobs")
        self.backbone = blobs.put(models.lineage().frozen)
        self.session = CountedSession(blobs.path(self.backbone), SessionSettings())
        self.cache = FeatureCache(folder / "features.db", megabytes=1)

    def images(self) -> tuple[ImageToCount, ...]:
        return tuple(
            ImageToCount(
                str(path.relative_to(self.folder)), file_digest(path), ClassName(path.parent.name)
            )
            for path in sorted(self.folder.rglob("*.png"))
        )

    def read(self, images: tuple[ImageToCount, ...]) -> ReadFeatures:
        frozen = Frozen(self.session, batch=3)
        extractor = FrozenExtractor(self.folder, GREY_8, frozen, batch=3)
        return FeatureReader(self.backbone, extractor, self.cache).read(images)

    def expected(self, images: tuple[ImageToCount, ...]) -> np.ndarray:
        """The features by hand: pixels as a share of the brightest one, in steps of 1/127."""
        files = [(self.folder / image.path).read_bytes() for image in images]
        flat = np.stack([preprocess(data, GREY_8) for data in files]).reshape(len(files), -1)
        return np.rint(flat / flat.max(axis=1, keepdims=True) * np.float32(127))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_features_are_what_onnx_runtime_makes_of_each_image_in_their_order(room: Room) -> None:
    images = room.images()
    read = room.read(images)
    assert read.features.dtype == np.float32
    assert np.array_equal(read.features, room.expected(images))
    assert read.images == images
    shuffled = (images[5], images[0], images[3])
    assert np.array_equal(room.read(shuffled).features, room.expected(shuffled))


def test_each_sample_is_computed_once_for_all_rounds_and_starts(room: Room) -> None:
    images = room.images()
    room.read(images[:4])
    assert room.session.seen == 4
    first = room.read(images)
    assert room.session.seen == 7
    room.cache.close()
    assert np.array_equal(room.read(images).features, first.features)
    assert room.session.seen == 7


def test_a_known_sample_needs_no_file_and_another_content_is_another_sample(room: Room) -> None:
    images = room.images()
    expected = room.expected(images)
    room.read(images)
    (room.folder / images[0].path).unlink()
    (room.folder / images[1].path).write_bytes(models.picture("light", 99))
    assert np.array_equal(room.read(images).features, expected)
    changed = room.images()[0]
    assert changed.digest != images[1].digest
    room.read((changed,))
    assert room.session.seen == 8


def test_what_vanished_changed_or_does_not_decode_is_left_out(room: Room) -> None:
    images = room.images()
    (room.folder / images[0].path).unlink()
    (room.folder / images[1].path).write_bytes(models.picture("light", 99))
    path = room.folder / images[2].path
    path.write_bytes(b"no picture at all")
    broken = replace(images[2], digest=file_digest(path))
    read = room.read((images[0], images[1], broken, *images[3:]))
    assert read.images == images[3:]
    assert np.array_equal(read.features, room.expected(images[3:]))
    ((name, reason),) = read.unusable
    assert name == broken.digest
    assert "no picture that can be read" in reason


def test_no_image_gives_no_row_of_the_right_width(room: Room) -> None:
    assert room.read(()).features.shape == (0, 64)


def test_rows_of_another_width_are_computed_again(room: Room) -> None:
    images = room.images()[:1]
    room.read(images)
    source = FeatureReader(
        room.backbone, FrozenExtractor(room.folder, GREY_8, Frozen(room.session, 3), 3), room.cache
    )._source
    room.cache.write(source, {images[0].digest: np.zeros(3, np.float32)})
    assert np.array_equal(room.read(images).features, room.expected(images))


def test_training_goes_on_where_the_disk_takes_no_cache_and_says_so(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (tmp_path / "file").write_text("not a folder")
    room.cache = FeatureCache(tmp_path / "file" / "features.db", megabytes=1)
    images = room.images()
    for seen in (7, 14):
        read = room.read(images)
        assert np.array_equal(read.features, room.expected(images))
        assert "training goes on without the cache" in read.trouble
        assert room.session.seen == seen


def test_more_images_than_are_looked_up_together_keep_their_order(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.device_agent.models.features.reader._AT_ONCE", 2)
    images = room.images()
    room.read(images[2:5])
    assert np.array_equal(room.read(images).features, room.expected(images))


def test_a_backbone_of_another_digest_shares_nothing(room: Room) -> None:
    images = room.images()
    room.read(images)
    room.backbone = digest("another backbone")
    room.read(images)
    assert room.session.seen == 14
