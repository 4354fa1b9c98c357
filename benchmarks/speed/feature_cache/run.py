"""Measure a device's feature cache against computing the same features.

Pictures (JPEG) go through MobileNetV2 at 112 pixels on one thread, a few at a time, as an agent
does it. In every round, in processor time of this process, system calls included:

    compute   decoding, preprocessing and network: what a round costs without the cache
    write     1,000 rows of 1,280 floats into an empty cache, a few at a time
    read      the same rows, checked, from a cache that was just opened
    file      the same bytes from one plain file, unchecked: the floor
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.features.cache import FeatureCache, cache_bytes
from fleetledger.device_agent.models.features.extractor import FrozenExtractor
from fleetledger.device_agent.models.features.reader import FeatureReader
from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    SessionSettings,
)
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import plain_frozen
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    random_weights,
)
from fleetledger.schemas.values import ClassName, Digest

RESULTS = RESULTS_FOLDER / "feature_cache.json"
SIZE, SIDE, BATCH = 112, 128, 8
SIDES = ("compute", "write", "read", "file")


def put_pictures(folder: Path, number: int) -> tuple[ImageToCount, ...]:
    """Write random JPEG pictures; return what an agent's scan would say of them."""
    chance = np.random.default_rng(0)
    images = []
    (folder / "class").mkdir(parents=True)
    for index in range(number):
        coarse = Image.fromarray(chance.integers(0, 256, (8, 8, 3), np.uint8))
        file = io.BytesIO()
        coarse.resize((SIDE, SIDE)).save(file, "JPEG")
        path = f"class/{index}.jpg"
        (folder / path).write_bytes(file.getvalue())
        images.append(ImageToCount(path, Digest.of(file.getvalue()), ClassName("class")))
    return tuple(images)


class Room:
    """Pictures, a backbone and places for caches."""

    def __init__(self, folder: Path, pictures: int) -> None:
        preprocessing = imagenet_preprocessing(SIZE)
        model = import_backbone(build_mobilenet_v2(SIZE, random_weights()), preprocessing).model
        blobs = BlobFolder(folder / "blobs")
        self.backbone = blobs.put(plain_frozen(model))
        frozen = Frozen(
            InferenceSession(blobs.path(self.backbone), SessionSettings(batch=BATCH)), BATCH
        )
        self.extractor = FrozenExtractor(folder / "data", preprocessing, frozen, BATCH)
        self.images = put_pictures(folder / "data", pictures)
        self.folder = folder
        self.rows = dict(zip(self._digests, self._compute(), strict=True))
        np.concatenate(list(self.rows.values())).tofile(folder / "plain")
        self._full = folder / "full.db"
        self._write(self._full)

    @property
    def _digests(self) -> list[Digest]:
        return [image.digest for image in self.images]

    @property
    def cache_bytes(self) -> int:
        """Size of the full cache on the disk."""
        return cache_bytes(self._full)

    def sides(self, number: int) -> dict[str, Callable[[], object]]:
        """Return what each side runs in a round."""
        return {
            "compute": self._compute,
            "write": lambda: self._write(self.folder / f"new-{number}.db"),
            "read": self._read,
            "file": lambda: np.fromfile(self.folder / "plain", np.float32),
        }

    def _compute(self) -> np.ndarray:
        return np.concatenate([batch.features for batch in self.extractor.features(self.images)])

    def _write(self, path: Path) -> None:
        cache = FeatureCache(path, 256)
        for start in range(0, len(self.images), BATCH):
            some = self._digests[start : start + BATCH]
            cache.write(self.backbone, {digest: self.rows[digest] for digest in some})
        cache.close()

    def _read(self) -> None:
        cache = FeatureCache(self._full, 256)
        found = cache.read(self.backbone, self._digests)
        cache.close()
        assert len(found) == len(self.images)

    def check(self) -> None:
        """Raise unless a reader gives the same features with a cache as without."""
        reader = FeatureReader(self.backbone, self.extractor, FeatureCache(self.folder / "c", 256))
        for _ in range(2):
            assert np.array_equal(reader.read(self.images).features, self._compute())


def measure(room: Room, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of processor time of each side in each round, in rotating order."""
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    for number in range(rounds):
        sides = room.sides(number)
        for name in (*SIDES[number % 4 :], *SIDES[: number % 4]):
            began = time.process_time()
            sides[name]()
            seconds[name].append(time.process_time() - began)
    return seconds


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--pictures", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder), given.pictures)
        room.check()
        seconds = measure(room, given.rounds)
        size = room.cache_bytes
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    found = {
        "machine": describe_machine("numpy", "onnxruntime", "sqlite-utils"),
        "rounds": given.rounds,
        "pictures": given.pictures,
        "cache_bytes": size,
        "seconds": seconds,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name in SIDES:
        low, high = min(seconds[name]), max(seconds[name])
        print(f"{name:8} {1e3 * middle[name]:9.1f} ms ({1e3 * low:.1f} to {1e3 * high:.1f})")
    print(f"compute / read {middle['compute'] / middle['read']:.0f}; {size} bytes on the disk")


if __name__ == "__main__":
    main()
