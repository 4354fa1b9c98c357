"""The folder of one run: where everything lies, and how images get into a device's folders.

<run>/metrics.json, accuracy.png      what came out
<run>/coordinator/                    settings, ledger and blobs of the coordinator
<run>/agents/<device>/                settings and state of an agent
<run>/agents/<device>/data/           its private images, a folder per class
<run>/agents/<device>/test/           its share of the test images, a folder per class
<run>/broker/                         configuration, secrets and log of the broker
<run>/logs/                           what the programs said
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from schemas.values import ClassName, DeviceId
from simulator.datasets import LabelledImages
from simulator.errors import DemoError


@dataclass(frozen=True)
class RunFolder:
    """Paths below one run's root; `create` makes the folders."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> RunFolder:
        """Make an empty run folder; raise `DemoError` if something is there already."""
        root = root.expanduser().absolute()
        try:
            if root.exists() and any(root.iterdir()):
                raise DemoError(f"out: {root} is not empty; give a folder that is, or a new one")
            folder = cls(root)
            for path in (folder.coordinator, folder.agents, folder.logs):
                path.mkdir(parents=True)
        except OSError as error:
            raise DemoError(f"out: {root}: {error.strerror}; give a folder to write to") from error
        return folder

    @property
    def coordinator(self) -> Path:
        """Home of the coordinator."""
        return self.root / "coordinator"

    @property
    def agents(self) -> Path:
        """Folder with a home per agent."""
        return self.root / "agents"

    @property
    def broker(self) -> Path:
        """Folder of the broker; the broker makes it."""
        return self.root / "broker"

    @property
    def logs(self) -> Path:
        """Folder with a log per program."""
        return self.root / "logs"

    @property
    def metrics(self) -> Path:
        """Everything that was measured, as JSON."""
        return self.root / "metrics.json"

    @property
    def plot(self) -> Path:
        """Accuracy per stage, as a picture."""
        return self.root / "accuracy.png"

    def agent(self, device: DeviceId) -> Path:
        """Return the home of one agent."""
        return self.agents / device

    def private_images(self, device: DeviceId) -> Path:
        """Return the folder that the agent learns from."""
        return self.agent(device) / "data"

    def test_images(self, device: DeviceId) -> Path:
        """Return the folder that the agent measures its model on."""
        return self.agent(device) / "test"


def write_images(folder: Path, images: LabelledImages, prefix: str) -> None:
    """Write `images` as PNG files into `folder/<class name>/<prefix>-<number>.png`.

    All classes arrive whole and together: their folders are filled beside `folder` and then moved
    in, so that a program that watches `folder` never meets half a file or half a class. Raises
    `DemoError` if a class is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in images.counts():
        if (folder / name).exists():
            raise DemoError(f"{folder / name}: is there already; each class comes in one stage")
    filled = {name: _fill_beside(folder, images, name, prefix) for name in images.counts()}
    for name, beside in filled.items():
        beside.rename(folder / name)


def _fill_beside(folder: Path, images: LabelledImages, name: ClassName, prefix: str) -> Path:
    """Write the images of one class into a hidden folder beside `folder`; return it."""
    beside = folder.parent / f".{folder.name}-{name}"
    beside.mkdir(parents=True)
    members = images.take(images.of_classes((images.class_names.index(name),)))
    digits = len(str(len(members)))
    for i, pixels in enumerate(members.images):
        Image.fromarray(pixels).save(beside / f"{prefix}-{i:0{digits}}.png")
    return beside
