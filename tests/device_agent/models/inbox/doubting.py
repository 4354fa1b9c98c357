"""Homes whose inbox has images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox
from fleetledger.device_agent.settings import InboxSettings
from fleetledger.schemas.values import DeviceId, Digest, FleetId

CLASSES = ("apple", "pear")
LIMITS = InboxSettings(interval_seconds=0)


def a_home(folder: Path, evaluation: str | None = None) -> AgentHome:
    """Make a home that keeps what is doubted, with folders of two classes."""
    new = NewHome(DeviceId("cam-1"), FleetId("orchard"), evaluation_folder=evaluation)
    file = write_home(folder, new)
    file.write_text(file.read_text().replace("keep = false", "keep = true"))
    for name in CLASSES:
        (folder / "data" / name).mkdir(parents=True)
    if evaluation is not None:
        (folder / evaluation).mkdir(exist_ok=True)
    return AgentHome.open(folder)


def scene(seed: int, side: int = 64) -> np.ndarray:
    small = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return np.array(Image.fromarray(small).resize((side, side)))


def doubt(home: AgentHome, *seeds: int, guess: str = "apple", side: int = 64) -> list[Digest]:
    """Have images come; return their digests, the most doubted first."""
    inbox = DoubtInbox(home.inbox_folder, LIMITS)
    for seed in seeds:
        assert inbox.offer(scene(seed, side), 0.9 - seed / 100, guess, 7) == "kept"
    waiting = sorted(inbox.waiting(), key=lambda image: -image.doubt)
    return [image.digest for image in waiting]
