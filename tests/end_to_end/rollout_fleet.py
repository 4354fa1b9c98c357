"""Ten devices that learn nothing, their own held-out pictures, and models made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from fleetledger.coordinator.trust.key_files import public_file
from fleetledger.device_agent.home.status_file import read_status
from fleetledger.simulator.engines.mqtt.homes import write_password
from tests.end_to_end.process_fleet import ProcessFleet

DEVICES = tuple(f"camera-{number}" for number in range(10))
CLASSES = ("left", "right", "top", "bottom")
IMAGES = 10
"""Held-out ones of each class, on each device."""
PREPROCESSING = """\
mode = "L"
size = [8, 8]
mean = [0.0]
deviation = [1.0]
input_name = "image"
"""
PLAN = """\
soak = 0
settle_seconds = 0.2
[gates]
latency = "off"  # this machine runs ten devices, and what else it has to
"""
_LIGHT: dict[str, tuple[slice, slice]] = {
    "left": np.s_[:, :4],
    "right": np.s_[:, 4:],
    "top": np.s_[:4, :],
    "bottom": np.s_[4:, :],
}
_draw = np.random.default_rng(7)
_HIDDEN = _draw.normal(size=(64, 32)).astype(np.float32)


def picture(name: str) -> np.ndarray:
    pixels = _draw.uniform(0, 90, (8, 8))
    pixels[_LIGHT[name]] += 150
    return pixels.astype(np.uint8)


def _fitted() -> np.ndarray:
    rows = [(picture(name), index) for index, name in enumerate(CLASSES) for _ in range(100)]
    seen = np.array([pixels.ravel() / 255 for pixels, _ in rows], np.float32)
    features = np.maximum(seen @ _HIDDEN, 0)
    wanted = np.eye(len(CLASSES))[[index for _, index in rows]]
    return np.linalg.solve(features.T @ features + np.eye(32), features.T @ wanted) * 8


HEAD = _fitted()


def write_model(file: Path, *, loses: str | None = None, scale: float = 1.0) -> None:
    """Write a network that knows all classes, or has unlearned one of them."""
    head = (HEAD * scale).astype(np.float32)
    if loses is not None:
        head[:, CLASSES.index(loses)] = 0.0
    nodes = [
        helper.make_node("Flatten", ["image"], ["pixels"]),
        helper.make_node("MatMul", ["pixels", "hidden"], ["sums"]),
        helper.make_node("Relu", ["sums"], ["features"]),
        helper.make_node("MatMul", ["features", "head"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "sides",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(CLASSES)])],
        [numpy_helper.from_array(_HIDDEN, "hidden"), numpy_helper.from_array(head, "head")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file
    )


class RolloutFleet(ProcessFleet):
    """A coordinator that leads no learning, a root, and ten devices that only run models."""

    name = "gates"

    def set_up(self) -> None:
        """Make the homes of all programs; the release key lies in the coordinator's at first."""
        self.broker.add_users(DEVICES)
        write_password(self.home, self.broker, "coordinator")
        self.operator(
            "coordinator", "init", "--fleet", self.name, "--no-learning", "--trial",
            *self.access(self.broker.port),
        )  # fmt: skip
        root_key = self.folder / "safe" / "root.pem"
        self.operator("trust", "init", "--root-key", str(root_key))
        (self.folder / "classes.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
        (self.folder / "pictures.toml").write_text(PREPROCESSING, encoding="utf-8")
        root = self.home / "trust" / "root-1.json"
        for device in DEVICES:
            self.set_up_agent(device, options=("--no-data", "--root", str(root)))
            self._hold_out(self.folder / device / "evaluation")

    def run_model_1(self) -> None:
        """Set everything up, start all programs, and wait until all devices run model 1."""
        self.set_up()
        self.import_model(1)
        self.start_coordinator()
        for device in DEVICES:
            self.start_agent(device)
        self.operator("model", "push", "1", "--yes")
        self.until(lambda: self.running() == [1] * len(DEVICES))

    def plan(self, version: int, *words: str) -> None:
        """Plan a rollout of a version, by words on top of `PLAN`."""
        file = self.folder / "plan.toml"
        file.write_text(PLAN, encoding="utf-8")
        self.operator("rollout", "plan", str(version), "--file", str(file), "--yes", *words)

    def put_release_key_away(self) -> Path:
        """Take the release key out of the coordinator's home; return where it is then."""
        kept = self.folder / "safe" / "release.pem"
        key = self.home / "keys" / "release.pem"
        public_file(key).rename(public_file(kept))
        return key.rename(kept)

    def import_model(self, version: int, *, loses: str | None = None, scale: float = 1.0) -> None:
        """Import a model that knows all classes, or has unlearned one, as the next version."""
        file = self.folder / f"model-{version}.onnx"
        write_model(file, loses=loses, scale=scale)
        said = self.operator(
            "model", "import", str(file), "--classes", str(self.folder / "classes.txt"),
            "--preprocessing", str(self.folder / "pictures.toml"),
        )  # fmt: skip
        assert f"is model {version}" in said

    def waits_for_signature(self, rollout: int) -> bool:
        found = json.loads(self.operator("rollout", "show", str(rollout), "--json"))
        return bool(found["rollout"]["waits_for"] == "signature")

    def running(self) -> list[int | None]:
        """Return the versions that the devices run, by what they say themselves."""
        found = [read_status(self.folder / device / "status.json") for device in DEVICES]
        return [None if status is None else status.active_version for status in found]

    def _hold_out(self, folder: Path) -> None:
        for name in CLASSES:
            (folder / name).mkdir(parents=True)
            for number in range(IMAGES):
                Image.fromarray(picture(name)).save(folder / name / f"{number}.png")
