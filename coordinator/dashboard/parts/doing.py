"""What is to be done about a need: the action that its command stands for, or a look at it."""

from __future__ import annotations

import shlex
from pathlib import Path

from coordinator.dashboard.actions.registry import ACTIONS
from coordinator.dashboard.addresses import action_url, device_url, entry_url, rollout_url
from coordinator.reading.answers import Need
from coordinator.reading.needs import at_home
from schemas.message import Strict


class Doing(Strict):
    """What one does about a need."""

    text: str
    """As on a button."""
    url: str
    acts: bool
    """Whether it changes something, so that a viewer may not."""


class NeedHere(Strict):
    """A need, with what one does about it on a page."""

    need: Need
    doing: Doing | None
    command: str | None
    """What does it elsewhere, where no page does."""


def with_doing(need: Need, home: Path | None = None) -> NeedHere:
    """Return the need with its button, or with the command that has none, for that home."""
    doing = _action(need) or _look(need)
    acts = doing is not None and doing.acts
    look_up = (need.command or "").startswith("fleetledger ledger show")
    told = need if home is None else at_home(need, home)
    return NeedHere(need=need, doing=doing, command=None if acts or look_up else told.command)


def _action(need: Need) -> Doing | None:
    words = shlex.split(need.command or "")[1:]
    match words:
        case ["coordinator", "resume-rounds"]:
            return _doing("resume-rounds")
        case ["coordinator", "close-stage"]:
            return _doing("close-stage")
        case ["device", "retire", device]:
            return _doing("retire", device=device)
        case ["coordinator", "settle", device, *_]:
            return _doing("settle", device=device)
        case ["coordinator", "open-stage", *names]:
            return _doing("open-stage", classes=" ".join(names))
        case ["rollout", "approve", number]:
            return _doing("rollout-approve", rollout=number)
        case ["rollout", "start", number]:
            return _doing("rollout-start", rollout=number)
        case ["rollout", "show", number]:
            return Doing(text=f"Open rollout {number}", url=rollout_url(int(number)), acts=False)
        case ["model", "push", version]:
            return _doing("push-model", version=version)
        case _:
            return None


def _doing(name: str, **fields: str) -> Doing:
    return Doing(text=f"{ACTIONS[name].title}…", url=action_url(name, **fields), acts=True)


def _look(need: Need) -> Doing | None:
    if len(need.devices) == 1:
        name = need.devices[0]
        return Doing(text=f"Open {name}", url=device_url(name), acts=False)
    if need.index is not None:
        return Doing(text=f"See #{need.index:,}", url=entry_url(need.index), acts=False)
    return None
