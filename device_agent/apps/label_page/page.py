"""What the page says: a pure function of what waits, the classes, and what was done last."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetledger.device_agent.models.inbox.labels import LabelStep
from fleetledger.device_agent.models.inbox.rules import DoubtedImage
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.transport.pages import words

MOST_SHOWN = 48
"""Images on one page; when some are named, others take their places."""
Order = Literal["doubt", "new"]


@dataclass(frozen=True)
class Entered:
    """What a form held that was refused, so that nobody has to say it again."""

    chosen: frozenset[str] = frozenset()
    """Digests of images."""
    text: str = ""
    problem: str = ""


@dataclass(frozen=True)
class ImageTile:
    """An image with what was said of it."""

    image: DoubtedImage
    seen: str
    """How long ago."""
    chosen: bool
    confirmable: bool
    """Whether the guess is a class that can be given."""

    @property
    def doubt(self) -> str:
        """How much the model doubts, in its unit."""
        return f"{self.image.doubt:.2f}"


@dataclass(frozen=True)
class LabelPage:
    """Everything that the page shows."""

    waiting: int
    tiles: tuple[ImageTile, ...]
    class_names: tuple[ClassName, ...]
    order: Order
    newest: float
    """When the newest came, in seconds since 1970; 0 where none waits."""
    keeps: bool
    """Whether doubted images are kept at all."""
    last: LabelStep | None
    entered: Entered

    @property
    def title(self) -> str:
        """What there is to do."""
        if not self.waiting:
            return "No image waits for a name."
        verb = "waits" if self.waiting == 1 else "wait"
        return f"{words.plural(self.waiting, 'image')} {verb} for a name."

    @property
    def keys(self) -> dict[ClassName, str]:
        """Return the digit that gives a class: its own where it is one, else the next free one."""
        own = {name: str(name) for name in self.class_names if re.fullmatch("[0-9]", name)}
        free = (key for key in "1234567890" if key not in own.values())
        others = (name for name in self.class_names if name not in own)
        return own | dict(zip(others, free, strict=False))

    @property
    def told(self) -> str:
        """What was done last; empty where nothing can be taken back."""
        return "" if self.last is None else describe_step(self.last)


def describe_step(step: LabelStep) -> str:
    """Return what was done, in a sentence."""
    count = words.plural(step.images, "image")
    if step.name is None:
        return f"{count} thrown away."
    verb = "is" if step.images == 1 else "are"
    new = ", a new class" if step.is_new else ""
    held = f" {step.held_out} of them held out for evaluation." if step.held_out else ""
    return f"{count} {verb} {step.name} now{new}.{held}"


def problem_of(step: LabelStep) -> str:
    """Return what could not be done; empty where all was."""
    gone = ""
    if step.gone:
        verb = "was" if step.gone == 1 else "were"
        gone = f"{words.plural(step.gone, 'image')} {verb} not there any more."
    return " ".join(filter(None, (gone, step.fault)))


@dataclass(frozen=True)
class PageLook:
    """How somebody looks at the page."""

    order: Order = "doubt"
    now: float = 0.0
    """Seconds since 1970."""
    entered: Entered = Entered()


def label_page(
    waiting: Sequence[DoubtedImage],
    class_names: Collection[ClassName],
    shown: PageLook,
    *,
    keeps: bool,
    last: LabelStep | None,
) -> LabelPage:
    """Return the page; of many images the first ones in its order."""
    if shown.order == "doubt":
        ordered = sorted(waiting, key=lambda image: (-image.doubt, -image.time))
    else:
        ordered = sorted(waiting, key=lambda image: -image.time)
    tiles = tuple(
        ImageTile(
            image,
            words.ago(int(image.time * 1e9), int(shown.now * 1e9)),
            str(image.digest) in shown.entered.chosen,
            image.guess in class_names,
        )
        for image in ordered[:MOST_SHOWN]
    )
    newest = max((image.time for image in waiting), default=0.0)
    names = tuple(sorted(class_names))
    return LabelPage(len(waiting), tiles, names, shown.order, newest, keeps, last, shown.entered)


def digests_in(texts: Sequence[str]) -> list[Digest]:
    """Return digests of a form; raise `InvalidValueError` for what is none."""
    return [Digest(text) for text in texts]
