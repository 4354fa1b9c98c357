"""A device always has a working model: an installation is cut, torn and starved at every point.

What is done to the disk between the first byte of a new model and its trust is recorded by
`tests.chaos.disk`: part files, blobs, slots, the link, the counts of attempts and starts. At
each of these points the program is killed, the power goes (with several outcomes of what was not
synced), or the disk is full from there on. What applications find under `current` is a whole model
at every one of them. After the next start the old or the new model runs and gives the golden
answers; and the installation can be finished.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.errors import ModelError
from fleetledger.device_agent.home.store.blobs import BlobFolder, file_digest
from fleetledger.device_agent.models import host as host_module
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.inference.leases import CURRENT
from fleetledger.device_agent.models.inference.published import (
    FROZEN,
    HEAD,
    PublishedModels,
    read_published,
)
from fleetledger.device_agent.models.installer import Guards, Installer
from fleetledger.device_agent.models.model_rules import onnx_file
from fleetledger.device_agent.models.probation import Probation
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.learning.onnx_files.file_rules import OnnxFile, read_onnx
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.transport.part_file import PartFile
from tests.chaos.cutting import CutError
from tests.chaos.disk import Disk, Drive
from tests.chaos.volume import Volume
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8

OLD, NEW = models.exported(1), models.exported(2, flipped=True)
Work = Callable[["Device"], object]


@dataclass
class Fate:
    """What happens at the `at`-th point; records the names of all before."""

    kind: str
    at: int
    passed: list[str] = field(default_factory=list)
    full: bool = False

    def point(self, name: str) -> None:
        first = len(self.passed) == self.at and not self.full
        if first and self.kind != "full disk":
            raise CutError(name)
        self.full |= first
        # What is there is made durable on a full disk, too, unless that is where it shows.
        takes_space = name not in ("unlink", "fsync") or (first and name == "fsync")
        if self.full and takes_space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.passed.append(name)


class Device:
    """What an agent has on its disk, as a new run of it finds that."""

    def __init__(self, root: Path) -> None:
        self.now = 0.0
        self.blobs = BlobFolder(root / "blobs")
        self.slots = ModelSlots(root / "slots")
        self.probation = Probation(self.slots.folder, 60.0, lambda: self.now)
        self.published = PublishedModels(root, self.blobs, self.slots)
        self._host = ModelHost(self.blobs, SessionSettings())
        self.installer = Installer(
            self.blobs,
            self.slots,
            self._host,
            lambda _: [np.zeros(GREY_8.shape, np.float32)],
            guards=Guards(probation=self.probation),
        )

    def start(self) -> inputs.ModelFellBack | None:
        active = self.slots.active()
        fell = self.installer.check_active(active.model) if active is not None else None
        self.published.follow(thorough=True)
        return fell

    def fetch(self) -> None:
        """Bring the files of the new model here, as block transfers do; one of them as a blob."""
        for data in (NEW.manifest.canonical_bytes(), *NEW.files.values()):
            offer = models.offer_of(data)
            path = self.blobs.path(offer.digest)
            if path.exists():
                continue
            if offer.digest == NEW.manifest.golden_scores.digest:
                self.blobs.put(data)
                continue
            part = PartFile(offer, path)
            for index, old in part.old_blocks():
                if old != data:
                    part.write(index, data)
                else:
                    part.take_over([index])
            part.finish()

    def install(self) -> None:
        self.fetch()
        event = self.installer.install(models.desired_of(NEW.manifest, NEW))
        if not isinstance(event, inputs.ModelInstalled):
            raise FleetledgerError(str(event))
        self.published.follow(thorough=True)

    def shadow(self) -> None:
        """Keep the new model as candidate."""
        self.fetch()
        event = self.installer.shadow(models.desired_of(NEW.manifest, NEW))
        if not isinstance(event, inputs.CandidateKept):
            raise FleetledgerError(str(event))

    def forget(self) -> None:
        """Let the candidate go, with what only it needs."""
        self.installer.forget_candidate()
        self.blobs.clean(self.slots.digests())

    def trust(self) -> None:
        """Live through the probation, and remove what nothing needs."""
        self.now += 60.0
        self.installer.lived()
        self.published.follow()
        self.blobs.clean(self.slots.digests())

    def answers_right(self) -> int:
        """Hold the active model to its golden answers; return its version."""
        model = self.installer.active()
        assert model is not None, "no model is active"
        manifest = model.manifest
        self_test(
            model,
            self.blobs.read(manifest.golden.digest),
            self.blobs.read(manifest.golden_scores.digest),
        )
        return manifest.version


def published_version(root: Path) -> int:
    """Hold what applications find to its manifest; return its version."""
    folder = (root / CURRENT).resolve(strict=True)
    manifest = read_published(folder)
    assert file_digest(folder / FROZEN) == manifest.frozen.digest
    assert file_digest(folder / HEAD) == manifest.head.digest
    return manifest.version


def whole(device: Device) -> None:
    device.install()
    device.trust()


def compared(device: Device) -> None:
    """Keep a candidate, and let it go again."""
    device.shadow()
    device.forget()


def prepared(folder: Path, work: Work | None) -> Path:
    """Return a disk with the old model, trusted, after which `work` was done."""
    device = Device(folder)
    models.store_model(device.blobs, OLD)
    device.installer.install(models.desired_of(OLD.manifest, OLD))
    device.trust()
    if work is not None:
        work(device)
    return folder


def in_its_last_start(device: Device) -> None:
    """Leave a new model in probation, with which the agent was started twice."""
    device.install()
    device.probation.started(NEW.manifest.digest)
    device.probation.started(NEW.manifest.digest)


def fates(folder: Path, template: Path, work: Work, kind: str, seed: int) -> Iterator[Fate]:
    """Do the work again and again, with the fate at one point after the other; test each end."""
    at, ended = 0, False
    while not ended:
        root = folder / f"{kind}-{seed}-{at}"
        shutil.copytree(template, root, symlinks=True)
        fate = Fate(kind, at)
        drive = Drive(Volume(root, folder / f"shadow-{kind}-{seed}-{at}", Random(seed)), fate.point)
        with Disk([drive]) as disk:
            try:
                work(Device(root))
                ended = not fate.full
            except (CutError, OSError, FleetledgerError):
                pass
            disk.crash(drive, power_cut=kind == "power cut" or (fate.full and at % 2 == 1))
            assert published_version(root) in (1, 2)
            if fate.full:
                started_while_full(root, may_have_to_go_back=work is not whole)
        started_after(root)
        shutil.rmtree(root)
        yield fate
        at += 1


def started_while_full(root: Path, *, may_have_to_go_back: bool) -> None:
    """Whoever starts again on a disk that is still full has a model, too.

    To go back takes a new link: where there is no space for it, the agent ends with a sentence.
    """
    device = Device(root)
    try:
        device.start()
    except ModelError as error:
        told = may_have_to_go_back and "free some space" in str(error)
        if not told:
            raise
    assert device.answers_right() in (1, 2)


def started_after(root: Path) -> None:
    device = Device(root)
    device.start()
    assert device.answers_right() in (1, 2)
    assert published_version(root) == device.slots.active().version
    if device.slots.active().version == 1:
        device.install()
    assert device.answers_right() == 2
    assert Device(root).answers_right() == published_version(root) == 2


@cache
def read_once(data: bytes, domains: frozenset[str]) -> OnnxFile:
    return read_onnx(data, domains)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "release_memory", lambda: None)
    # The rules see bytes alone, and all ends leave the same few files, or torn ones.
    monkeypatch.setattr(
        onnx_file, "read_onnx_file", lambda path, domains: read_once(path.read_bytes(), domains)
    )
    # What is durable is the model's to say.
    monkeypatch.setattr(os, "fsync", lambda _: None)


WORKS: dict[str, tuple[Work | None, Work]] = {
    "installing": (None, whole),
    "going back": (in_its_last_start, Device.start),
    "keeping a candidate": (None, compared),
    "switching to a candidate": (Device.shadow, whole),
}
POINTS = {
    "installing": 80,
    "going back": 12,
    "keeping a candidate": 70,
    "switching to a candidate": 20,
}
"""At least so many each."""


@pytest.mark.parametrize("about", WORKS)
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("kill", 0),
        ("power cut", 0),
        # What was not synced is kept, lost or torn in other ways.
        pytest.param("power cut", 1, marks=pytest.mark.nightly),
        ("full disk", 0),
    ],
)
def test_a_device_has_a_working_model_wherever_its_work_ends(
    tmp_path: Path, kind: str, seed: int, about: str
) -> None:
    before, work = WORKS[about]
    template = prepared(tmp_path / "template", before)
    points = len(list(fates(tmp_path / about, template, work, kind, seed)))
    assert points >= POINTS[about]
