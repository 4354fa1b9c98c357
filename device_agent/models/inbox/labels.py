"""Doubted images become samples: they move into class folders, where the agent counts them.

- An image gets a second name in its class folder, durably, and only then goes from the inbox: a
  crash may leave it in both, and loses none. Nothing is overwritten; its file is named by its
  content.
- Where the owner holds images out, an image's content decides whether it is one of these.
- The last steps can be taken back, also a throwing away: the content is kept in memory for it, and
  nowhere else.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.device_agent.errors import LabelError, ModelError, StoreError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.store.blobs import sync_folder
from fleetledger.device_agent.kinds import PICTURES
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox
from fleetledger.device_agent.models.inbox.meant_class import class_meant
from fleetledger.device_agent.models.inbox.placement import disk_told, place_file
from fleetledger.device_agent.models.inbox.rules import DoubtedImage
from fleetledger.device_agent.models.inference.leases import current_folder
from fleetledger.device_agent.models.inference.published import read_published
from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import ClassName, Digest

MOST_STEPS = 20
"""That can be taken back."""
_MOST_THROWN_BYTES = 32 << 20


_Place = Callable[[DoubtedImage, bytes], None]


@dataclass(frozen=True)
class _Moved:
    """An image that was taken: where it is, or what it holds where it was thrown away."""

    image: DoubtedImage
    path: Path | None = None
    data: bytes = b""


@dataclass
class LabelStep:
    """What the owner did at once, and what came of it."""

    name: ClassName | None
    """The class; None where images were thrown away."""
    is_new: bool = False
    gone: int = 0
    """Images that were not there any more."""
    held_out: int = 0
    """Of those that were named."""
    fault: str = ""
    """Why it was not done for all; empty where it was."""
    moved: list[_Moved] = field(default_factory=list)
    _folders: list[Path] = field(default_factory=list)
    """That were made for it."""

    @property
    def images(self) -> int:
        """How many were named or thrown away."""
        return len(self.moved)


class ImageLabeller:
    """Names what waits on one device; for any number of threads that take turns.

    Raises `LabelError` for what cannot be done, with the way out.
    """

    def __init__(self, home: AgentHome, hold_out: int = 0) -> None:
        """Hold one in `hold_out` images out for evaluation; 0: none."""
        self.inbox = DoubtInbox(home.inbox_folder, home.settings.inbox)
        self._home = home
        self._hold_out = hold_out
        self._steps: deque[LabelStep] = deque(maxlen=MOST_STEPS)
        _check_home(home, hold_out)

    @property
    def last(self) -> LabelStep | None:
        """What would be taken back."""
        return self._steps[-1] if self._steps else None

    def class_names(self) -> tuple[ClassName, ...]:
        """Return the classes that are there: folders of this device, and classes of its model."""
        return tuple(sorted({*self._folders(), *self._of_the_model()}))

    def give(self, digests: Sequence[Digest], text: str) -> LabelStep:
        """Give images a class that is there, or a new one."""
        if not digests:
            raise LabelError("Choose one or more images first.")
        folders, known = self._folders(), self.class_names()
        name = class_meant(text, known)
        step = LabelStep(name, is_new=name not in known)

        def place(image: DoubtedImage, _data: bytes) -> None:
            held_out = self._is_held_out(image.digest)
            place_at = self._place(folders.get(name, name), step, held_out=held_out)
            path = place_at / image.file_name
            place_file(self.inbox.folder / image.file_name, path, image.digest)
            step.moved.append(_Moved(image, path))
            step.held_out += held_out

        return self._carry_out(digests, step, place)

    def throw_away(self, digests: Sequence[Digest]) -> LabelStep:
        """Take images away that are of no use."""
        if not digests:
            raise LabelError("Choose one or more images first.")
        step = LabelStep(None)

        def place(image: DoubtedImage, data: bytes) -> None:
            step.moved.append(_Moved(image, data=data))

        return self._carry_out(digests, step, place)

    def undo(self) -> LabelStep:
        """Have the images of the last step wait again, where they still are; return the step."""
        if not self._steps:
            raise LabelError("There is nothing to take back.")
        step = self._steps.pop()
        for number, moved in enumerate(step.moved):
            try:
                self._bring_back(moved)
            except (OSError, StoreError) as error:
                step.moved = step.moved[number:]
                self._steps.append(step)
                raise LabelError(f"{error}; the others stay where they are") from error
        for folder in step._folders:
            with suppress(OSError):  # other images are in it by now
                folder.rmdir()
        return step

    def _carry_out(self, digests: Sequence[Digest], step: LabelStep, place: _Place) -> LabelStep:
        for digest in dict.fromkeys(digests):
            try:
                step.gone += not self.inbox.take(digest, place)
            except LabelError as error:
                step.fault = str(error)
                break
        if step.moved:
            self._steps.append(step)
            self._forget_much()
        return step

    def _bring_back(self, moved: _Moved) -> None:
        data = moved.data
        if moved.path is not None:
            try:
                data = moved.path.read_bytes()
            except FileNotFoundError:
                return  # somebody moved it, who knows better
            if Digest.of(data) != moved.image.digest:
                return
        self.inbox.put_back(moved.image, data)
        if moved.path is not None:
            moved.path.unlink(missing_ok=True)

    def _forget_much(self) -> None:
        """Let the oldest steps go of which too many thrown images are in memory."""

        def size() -> int:
            return sum(len(moved.data) for step in self._steps for moved in step.moved)

        while len(self._steps) > 1 and size() > _MOST_THROWN_BYTES:
            self._steps.popleft()

    def _is_held_out(self, digest: Digest) -> bool:
        return self._hold_out > 0 and int(digest[:8], 16) % self._hold_out == 0

    def _place(self, name: str, step: LabelStep, *, held_out: bool) -> Path:
        """Return the folder of a class, which is made where it is missing."""
        root = self._home.evaluation_folder if held_out else self._home.data_folder
        assert root is not None, "nothing is held out without a folder for it"
        folder = root / name
        with disk_told(folder):
            try:
                folder.mkdir()
            except FileExistsError:
                return folder
            step._folders.append(folder)
            sync_folder(root)
        return folder

    def _folders(self) -> dict[ClassName, str]:
        """Return the names of class folders as the disk has them, by class."""
        folder = self._home.data_folder
        with disk_told(folder):
            names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
        found = {}
        for name in sorted(names):
            with suppress(InvalidValueError, UnicodeEncodeError):
                found[ClassName(name)] = name
        return found

    def _of_the_model(self) -> tuple[ClassName, ...]:
        try:
            return tuple(read_published(current_folder(self._home.folder)).class_names)
        except ModelError:
            return ()  # none is active, or it is being mended


def _check_home(home: AgentHome, hold_out: int) -> None:
    samples = home.settings.data.samples
    if home.settings.data.kind is not PICTURES:
        raise LabelError(
            f'{home.settings_file}: data.samples: is "{samples}"; images can be given a class '
            'where it is "pictures", with a folder for them'
        )
    if hold_out and home.evaluation_folder is None:
        raise LabelError(
            f"{home.settings_file}: data.evaluation_folder: is missing; images are held out in it"
        )
