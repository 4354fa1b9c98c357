"""Frames of films made of CIFAR-100, and those of CamVid, as features of a frozen MobileNetV2.

    FLEETLEDGER_DATA=FOLDER python -m benchmarks.papers.detection.film_features --out films.npz

FOLDER holds `cifar100.npz`, `mobilenet_v2.safetensors` and, where films of CamVid are wanted,
`camvid.npz` (docs/datasets.md makes them). Each image of a class becomes one of four: it is
learned from, held out, a thing that is filmed, or a thing that is filmed at a light of its own.
A film is a walk over one image at 96 pixels: shifts of 5 %, zooms of 8 %, turns of 3 degrees,
light of 4 %, and noise of 4 in 255.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.export.mobilenet_v2 import build_mobilenet_v2, imagenet_preprocessing, load_weights
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.simulator.scenario.loading import DATA_VARIABLE

SIZE = 96
POOLED = "pooled"
"""Output of the network."""
LEARNED, HELD_OUT, FILMED, DARKENED = 100, 40, 60, 30
"""Images of a class for each purpose, of 250."""
FRAMES = {"learned": 1, "held_out": 1, "filmed": 5, "darkened": 3}
"""Frames of each image."""
DARKEST = 0.3
_TOGETHER = 8
Bytes = npt.NDArray[np.uint8]


def walk(image: Bytes, frames: int, light: float, chance: np.random.Generator) -> Iterator[Bytes]:
    """Yield frames (SIZE, SIZE, 3) of a film of one image (h, w, 3)."""
    picture, side = Image.fromarray(image), image.shape[0]
    at = chance.normal(size=5)
    for _ in range(frames):
        at = 0.9 * at + np.sqrt(1 - 0.9**2) * chance.normal(size=5)
        shift, zoom = 0.05 * side * at[:2], side / SIZE * np.exp(0.08 * at[2] - 0.08)
        turn = np.deg2rad(3.0) * at[3]
        across, down = zoom * np.cos(turn), zoom * np.sin(turn)
        first = side / 2 + shift - SIZE / 2 * np.array([across - down, across + down])
        frame = picture.transform(
            (SIZE, SIZE),
            Image.Transform.AFFINE,
            (across, -down, first[0], down, across, first[1]),
            Image.Resampling.BICUBIC,
        )
        pixels = np.asarray(frame, np.float64) * light * (1 + 0.04 * at[4])
        noisy = pixels + chance.normal(scale=4.0, size=pixels.shape)
        yield np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


class Network:
    """The frozen part as a device runs it."""

    def __init__(self, weights: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "frozen.onnx")
            path.write_bytes(build_mobilenet_v2(SIZE, load_weights(weights)))
            self._session = InferenceSession(path, SessionSettings())
        self._preprocessing = imagenet_preprocessing(SIZE)

    def features(self, pictures: Iterator[Bytes]) -> npt.NDArray[np.float16]:
        """Return features (n, 1280) of pictures of any size."""
        rows, waiting = [], []
        for picture in pictures:
            waiting.append(preprocess(Image.fromarray(picture), self._preprocessing))
            if len(waiting) == _TOGETHER:
                rows.append(self._session.run(POOLED, np.stack(waiting)))
                waiting = []
        if waiting:
            rows.append(self._session.run(POOLED, np.stack(waiting)))
        return np.concatenate(rows).astype(np.float16)


def parts_of(labels: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.intp]]:
    """Return which images are for what; as many of each class."""
    chance = np.random.default_rng(1)
    ends = np.cumsum([0, LEARNED, HELD_OUT, FILMED, DARKENED])
    by_class = [chance.permutation(np.flatnonzero(labels == c)) for c in np.unique(labels)]
    return {
        name: np.concatenate([images[first:last] for images in by_class])
        for name, first, last in zip(FRAMES, ends, ends[1:], strict=False)
    }


def main() -> int:
    """Compute what is not in the file yet, part by part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=[*FRAMES, "camvid"], help="one part of them")
    options = parser.parse_args()
    folder = Path(os.environ.get(DATA_VARIABLE, "."))
    found = dict(np.load(options.out)) if options.out.exists() else {}
    network = Network(folder / "mobilenet_v2.safetensors")
    with np.load(folder / "cifar100.npz") as data:
        images = np.concatenate([data["train_x"], data["test_x"]])
        labels = np.concatenate([data["train_y"], data["test_y"]]).astype(np.int64)
    for number, (name, chosen) in enumerate(parts_of(labels).items()):
        if name in found or options.only not in (None, name):
            continue
        chance = np.random.default_rng([2, number])
        darkest = DARKEST if name == "darkened" else 1.0
        light = np.exp(chance.uniform(np.log(darkest), 0, len(chosen)))
        pictures = (
            frame
            for image, own in zip(chosen, light, strict=True)
            for frame in walk(images[image], FRAMES[name], own, chance)
        )
        rows = network.features(pictures)
        found[name] = rows.reshape(len(chosen), FRAMES[name], -1)
        found[f"{name}_labels"], found[f"{name}_light"] = labels[chosen], light
    film = folder / "camvid.npz"
    if film.exists() and "camvid" not in found and options.only in (None, "camvid"):
        with np.load(film) as data:
            found["camvid"] = network.features(iter([*data["train_x"], *data["test_x"]]))
    np.savez(options.out, **found)
    print({name: rows.shape for name, rows in found.items() if rows.ndim > 1})
    return 0


if __name__ == "__main__":
    sys.exit(main())
