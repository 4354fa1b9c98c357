"""Two devices that know three digits, an application that shows a fourth, and the owner's page."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image

import fleetledger
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.status_file import read_status
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox, inbox_of
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from tests.end_to_end.process_fleet import DIGITS_PREPROCESSING, ProcessFleet

DEVICES = ("gate-1", "gate-2")
KNOWN = ("zero", "one", "two")
NEW = "seven"
_DIGIT = {"zero": 0, "one": 1, "two": 2, NEW: 7}
SETTINGS = """\
[method]
name = "stsa"
settings = {map_width = 150}

[stages]
open = "reports"
reports_quorum = 1
settle_seconds = 0.5
quiet_seconds = 0.5

[models]
solve_every_seconds = 0.2
"""
"""One device's report of a new class opens a stage, soon."""
IMAGES = 30
"""Of each known class, on each device."""
Pixels = npt.NDArray[np.uint8]


@cache
def digits(name: str) -> list[Pixels]:
    from sklearn.datasets import load_digits  # an extra

    found = load_digits()
    chosen = found.images[found.target == _DIGIT[name]]
    return [(pixels * 15.9).astype(np.uint8) for pixels in chosen]


def shown() -> list[Pixels]:
    """What the camera sees of the new class."""
    return digits(NEW)[:80]


def kept_apart(name: str) -> list[Pixels]:
    """What no device has seen."""
    return digits(name)[-60:]


class LabellingFleet(ProcessFleet):
    """A fleet whose stages open by themselves, and whose devices keep what their model doubts."""

    name = "gates"

    def learn_known(self) -> None:
        """Set everything up, and learn the known classes on all devices."""
        self.broker.add_users(DEVICES)
        self.set_up_coordinator(SETTINGS)
        described = self.folder / "digits.toml"
        described.write_text(DIGITS_PREPROCESSING, encoding="utf-8")
        shape = Preprocessing(
            mode="L", size=(8, 8), mean=(0.5,), deviation=(0.25,), input_name="image"
        )
        backbone = self.folder / "pixels.onnx"
        backbone.write_bytes(scaling_backbone(shape))
        words = (str(backbone), "--preprocessing", str(described))
        self.operator("model", "import-backbone", *words)
        for number, device in enumerate(DEVICES):
            self.set_up_agent(device, options=("--evaluation", "evaluation"))
            self._set_up_inbox(device)
            self._put_images(device, number)
        self.start_coordinator()
        for device in DEVICES:
            self.start_agent(device)
        self.operator("coordinator", "open-stage", *KNOWN)
        self.until(lambda: all(set(KNOWN) == self.known_by(device) for device in DEVICES))

    def known_by(self, device: str) -> set[str]:
        """Return the classes of the model that a device runs; of none where none is there yet."""
        status = read_status(self.folder / device / "status.json")
        if status is None or status.active_version is None:
            return set()
        with fleetledger.active_model(self.folder / device) as model:
            return {str(name) for name in model.manifest.class_names}

    def answers(self, device: str, frames: list[Pixels]) -> list[str]:
        """Return what an application on a device is told of frames."""
        with fleetledger.active_model(self.folder / device) as model:
            return [model.classify(frame).name for frame in frames]

    def inbox(self, device: str) -> DoubtInbox:
        found = inbox_of(AgentHome.open(self.folder / device))
        assert found is not None
        return found

    def label_link(self, device: str) -> str:
        """Start the page of a device; return the link that it prints."""
        name = f"label-{device}"
        home = str(self.folder / device)
        self.start(name, "agent", "label", "--home", home, "--port", "0")
        self.until(lambda: "/login?token=" in self.said(name))
        return next(line for line in self.said(name).splitlines() if "/login?token=" in line)

    def _set_up_inbox(self, device: str) -> None:
        path = self.folder / device / "agent.toml"
        text = path.read_text(encoding="utf-8").replace("keep = false", "keep = true")
        text = text.replace("interval_seconds = 10", "interval_seconds = 0\ndoubt = 0.15")
        path.write_text(text, encoding="utf-8")

    def _put_images(self, device: str, number: int) -> None:
        home = self.folder / device
        for name in KNOWN:
            images = digits(name)[number * IMAGES : (number + 1) * IMAGES]
            for kind, some in (("data", images), ("evaluation", images[:2])):
                folder = home / kind / name
                folder.mkdir(parents=True)
                for index, pixels in enumerate(some):
                    Image.fromarray(pixels).save(folder / f"{index}.png")
