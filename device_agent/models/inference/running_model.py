"""The model that runs on this device, for a program that asks it: whichever it is by now."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import Self

from fleetledger.device_agent.errors import ModelError, NoModelError, StoreError
from fleetledger.device_agent.home.home import SETTINGS_FILE, AgentHome
from fleetledger.device_agent.kinds import PICTURES, kind_of
from fleetledger.device_agent.models.host import sessions_of
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox, inbox_of
from fleetledger.device_agent.models.inference.answers import (
    Classification,
    Embedding,
    Segmentation,
)
from fleetledger.device_agent.models.inference.frames import Frame
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.inference.leases import ModelLease, current_folder, take_lease
from fleetledger.device_agent.models.inference.loaded import LeasedModel
from fleetledger.device_agent.models.uncertainty import detection_of
from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.detection import DetectionRules
from fleetledger.schemas.models import Manifest

log = logging.getLogger("device_agent.inference")

HOME_VARIABLE = "FLEETLEDGER_AGENT"
DEFAULT_HOME = "agent-home"


def home_folder(home: str | os.PathLike[str] | None = None) -> Path:
    """Return an agent's home; left out, it is `$FLEETLEDGER_AGENT`, else `agent-home`."""
    return Path(home if home is not None else os.environ.get(HOME_VARIABLE, DEFAULT_HOME))


class RunningModel:
    """Answers with the active model, and goes over to another one between two calls.

    - Each call looks at one link, which takes microseconds; a model that has come is loaded then.
    - A call is answered by one version from its beginning to its end.
    - A new model that does not load here leaves the former one, and is told in the log.
    - Any number of threads may call.
    - What it doubts of what it predicts goes into the device's inbox, where the settings say so.
    """

    def __init__(
        self,
        home: Path,
        settings: SessionSettings,
        rules: DetectionRules,
        inbox: DoubtInbox | None = None,
    ) -> None:
        """Load the model that runs in `home`; raise `NoModelError`, `LoadError`, `MissingError`."""
        self.home = home
        self._settings = settings
        self._rules = rules
        self._inbox = inbox
        self._lock = threading.Lock()
        self._refused: Path | None = None
        self._loaded: LeasedModel | None = self._load(take_lease(home), None)

    @classmethod
    def open(cls, home: str | os.PathLike[str] | None = None) -> Self:
        """Load the model that runs in `home`, by the settings that lie there.

        Left out, `home` is `$FLEETLEDGER_AGENT`, else `agent-home`. Raises `SettingsError` too.
        """
        folder = home_folder(home)
        if not (folder / SETTINGS_FILE).exists():
            return cls(folder, SessionSettings(), DetectionRules())
        opened = AgentHome.open(folder)
        settings = opened.settings
        rules = detection_of(settings.detection) or DetectionRules()
        return cls(folder, sessions_of(opened), rules, inbox_of(opened))

    @property
    def version(self) -> int:
        """The version that the next call would be answered by."""
        return self.loaded().manifest.version

    @property
    def manifest(self) -> Manifest:
        """The manifest of that version."""
        return self.loaded().manifest

    def classify(self, frame: Frame) -> Classification:
        """Return the classes of a frame.

        Raises `SampleError` for a frame that is none, or for which the model has no finite
        numbers; `LoadError` where the model does not run or is of another kind.
        """
        (answer,) = self.classify_all([frame])
        if isinstance(answer, SampleError):
            raise answer
        return answer

    def classify_all(self, frames: Sequence[Frame]) -> list[Classification | SampleError]:
        """Return the classes of several frames, all by one version; raise `LoadError`.

        A frame without an answer has its `SampleError` in its place.
        """
        loaded = self.loaded()
        answers = loaded.classify_each(frames)
        if kind_of(loaded.manifest.preprocessing) is PICTURES:
            for frame, answer in zip(frames, answers, strict=True):
                if not isinstance(answer, SampleError):
                    self._keep_doubted(frame, answer)
        return answers

    def segment(self, frame: Frame) -> Segmentation:
        """Return the class of each pixel of a frame; raise as `classify` does."""
        return self.loaded().segment(frame)

    def embed(self, frame: Frame) -> Embedding:
        """Return the features of a frame; raise as `classify` does."""
        return self.loaded().embed(frame)

    def loaded(self) -> LeasedModel:
        """Return the model that runs now, for as many calls as shall see one version."""
        with self._lock:
            if self._loaded is None:
                raise ModelError("model: it was closed; open another one")
            if self._has_moved(self._loaded):
                self._loaded = self._follow(self._loaded)
            return self._loaded

    def close(self) -> None:
        """Let the model and its lease go, once calls that still run have ended."""
        with self._lock:
            self._loaded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep_doubted(self, frame: Frame, answer: Classification) -> None:
        """Offer a frame to the inbox; what goes wrong there spoils no answer."""
        if self._inbox is None:
            return
        try:
            self._inbox.offer(frame, answer.doubt, answer.name, answer.version)
        except (StoreError, SampleError) as error:
            log.warning("a doubted image is not kept: %s", error)

    def _has_moved(self, loaded: LeasedModel) -> bool:
        try:
            folder = current_folder(self.home)
        except NoModelError:
            # None is active. What answers is whole and leased: better than nothing for a camera.
            return False
        return folder not in (loaded.lease.folder, self._refused)

    def _follow(self, former: LeasedModel) -> LeasedModel:
        try:
            lease = take_lease(self.home)
        except NoModelError:
            return former
        try:
            return self._load(lease, former)
        except ModelError as error:
            self._refused = lease.folder
            log.warning("model version %s stays: %s", former.manifest.version, error)
            return former

    def _load(self, lease: ModelLease, former: LeasedModel | None) -> LeasedModel:
        loaded = LeasedModel(lease, self._settings, self._rules, former)
        self._refused = None
        return loaded
