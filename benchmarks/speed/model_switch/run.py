"""Classify frames while the model is switched, by two doors, and compare the calls that switch.

    call     `with fleetledger.active_model() as model: model.classify(frame)`
    socket   `POST /v1/predict` to `fleetledger agent serve`, over one connection
    bare     ONNX Runtime alone, on a frame that is preprocessed already: what the others add to

MobileNetV2 at 112 pixels with random weights; a version is another head of the same frozen part.
A thousand frames of 320 x 240, and a switch before each tenth: that call loads the head.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import fleetledger
from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.device_agent.home.home import NewHome, write_home
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.device_agent.models.inference.published import PublishedModels
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    random_weights,
)
from fleetledger.export.package import ExportedModel, Lineage, SolvedHead, export_model
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.values import ClassName, DeviceId, FleetId

SIDE, CLASSES = 112, 10
PATIENCE_SECONDS = 60.0
RESULTS = RESULTS_FOLDER / "model_switch.json"
Ask = Callable[[bytes], int]
"""Has a frame classified; returns the version that answered."""


class Device:
    """A home whose model is switched as the agent does it, but for trial and self-test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_home(folder, NewHome(DeviceId("bench"), FleetId("bench"), data_folder=None))
        self._blobs = BlobFolder(folder / "state" / "blobs")
        self._slots = ModelSlots(folder / "state" / "slots")
        self._published = PublishedModels(folder, self._blobs, self._slots)
        spec = imagenet_preprocessing(SIDE)
        frozen = build_frozen(build_mobilenet_v2(SIDE, random_weights()), "none")
        self._lineage = Lineage(frozen, build_golden(frozen, spec), spec)
        self.version = 0

    def switch(self) -> None:
        """Go over to a version with another head."""
        self.version += 1
        names = tuple(ClassName(f"class-{number}") for number in range(CLASSES))
        random = np.random.default_rng(self.version)
        width = 1280
        weights = random.standard_normal((CLASSES, width)) / width
        solved = SolvedHead(self.version, "stsa", names, weights, self.version, self.version)
        model: ExportedModel = export_model(self._lineage, solved)
        there = self._blobs.digests()
        for digest, data in model.files.items():
            if digest not in there:
                self._blobs.put(data)
        self._blobs.put(model.manifest.canonical_bytes())
        self._blobs.settle()
        self._slots.install(Slot.of(model.manifest))
        self._published.follow()


def frame() -> bytes:
    """Return a photograph's stand-in: noise of 320 x 240 pixels, enlarged, as JPEG."""
    pixels = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).resize((320, 240), Image.Resampling.BILINEAR).save(content, "JPEG")
    return content.getvalue()


@contextmanager
def by_call(home: Path) -> Iterator[Ask]:
    """Ask in this process."""
    with fleetledger.active_model(home) as model:
        yield lambda shown: model.classify(shown).version


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


@contextmanager
def by_socket(home: Path) -> Iterator[Ask]:
    """Ask a program of its own over one connection."""
    command = [sys.executable, "-m", "fleetledger", "agent", "serve", "--home", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        connection = _UnixConnection(home / "model.sock")

        def ask(shown: bytes) -> int:
            connection.request("POST", "/v1/predict", shown)
            return int(json.loads(connection.getresponse().read())["version"])

        try:
            yield ask
        finally:
            connection.close()
            process.terminate()


def measure(ask: Ask, device: Device, frames: int, every: int) -> dict[str, dict[str, float]]:
    """Time calls that switch and calls that do not, in milliseconds."""
    shown, switching, others = frame(), [], []
    ask(shown)
    for number in range(1, frames + 1):
        switches = number % every == 0
        if switches:
            device.switch()
        began = time.perf_counter()
        version = ask(shown)
        (switching if switches else others).append(1e3 * (time.perf_counter() - began))
        assert version == device.version, "a switch is seen by the next call"
    return {"switching": spread(switching), "others": spread(others)}


def bare(device: Device, frames: int) -> dict[str, float]:
    """Time ONNX Runtime's two sessions on a preprocessed frame, in milliseconds."""
    folder, milliseconds = device.folder / "current", []
    frozen, head = (
        InferenceSession(folder / name, SessionSettings()) for name in ("frozen.onnx", "head.onnx")
    )
    sample = preprocess(frame(), imagenet_preprocessing(SIDE))[np.newaxis]
    for _ in range(frames):
        began = time.perf_counter()
        head.run("scores", frozen.run("features", sample))
        milliseconds.append(1e3 * (time.perf_counter() - began))
    return spread(milliseconds)


def spread(milliseconds: list[float]) -> dict[str, float]:
    """Return the middle, the slowest twentieth and the slowest."""
    return {
        "n": len(milliseconds),
        "p50": round(statistics.median(milliseconds), 2),
        "p95": round(float(np.quantile(milliseconds, 0.95)), 2),
        "max": round(max(milliseconds), 2),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    said = parser.parse_args()
    doors: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        device = Device(Path(scratch) / "home")
        device.switch()
        alone = bare(device, said.frames // 4)
        for name, door in (("call", by_call), ("socket", by_socket)):
            with door(device.folder) as ask:
                doors[name] = measure(ask, device, said.frames, said.every)
            for kind in ("switching", "others"):
                found = doors[name][kind]
                found["p50_to_bare"] = round(found["p50"] / alone["p50"], 2)
                print(name, kind, found)
    result = {
        "claim": "model_switch",
        "machine": describe_machine("numpy", "onnxruntime"),
        "frames": said.frames,
        "bare_runtime_ms": alone,
        "doors_ms": doors,
    }
    print("bare", alone)
    said.out.parent.mkdir(parents=True, exist_ok=True)
    said.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
