"""Actions for a need: the button that its command stands for, or a link to its page."""

from __future__ import annotations

import shlex
from pathlib import Path

from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.coordinator.dashboard import addresses
from fleetledger.coordinator.reports.answers import Need
from fleetledger.coordinator.reports.needs import at_home
from fleetledger.runtime.strict import Strict
from fleetledger.transport.pages.words import in_words

_PAGES = tuple(f"fleetledger {verb}" for verb in ("ledger show", "rollout show", "device list"))
"""Commands that show what a page shows, to which a button leads."""


class Doing(Strict):
    """What one does about a need."""

    text: str
    """As on a button."""
    url: str
    acts: bool
    """Whether it changes something, so that a viewer may not."""
    of: str = ""
    """What it is done to, for who hears the button and does not see what it stands beside."""


class NeedHere(Strict):
    """A need, with what one does about it on a page."""

    need: Need
    doing: Doing | None
    instead: Doing | None
    """What one may do in its place."""
    command: str | None
    """What does it elsewhere, where no page does."""


def with_doing(need: Need, home: Path | None = None) -> NeedHere:
    """Return the need with its button, or with the command that has none, for that home."""
    doing = _action(need) or _look(need)
    acts = doing is not None and doing.acts
    look_up = (need.command or "").startswith(_PAGES)
    told = need if home is None else at_home(need, home)
    command = None if acts or look_up else told.command
    return NeedHere(need=need, doing=doing, instead=_instead(need), command=command)


def _instead(need: Need) -> Doing | None:
    match shlex.split(need.command or "")[1:]:
        case ["model", "push", version]:
            url = addresses.action_url("rollout-plan", version=version)
            return Doing(text="As a rollout…", url=url, acts=True, of=f"model {version}")
        case _:
            return None


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
            return _doing("rollout-approve", f"of rollout {number}", rollout=number)
        case ["rollout", "start", number]:
            return _doing("rollout-start", f"of number {number}", rollout=number)
        case ["rollout", "show", number]:
            url = f"{addresses.rollout_url(int(number))}#doing"
            return Doing(text="Decide", url=url, acts=False, of=f"about rollout {number}")
        case ["model", "push", version]:
            return _doing("push-model", f"in version {version}", version=version)
        case ["device", "list", *tagged]:
            return _list(need, tagged[-1:])
        case _:
            return None


def _list(need: Need, tag: list[str]) -> Doing:
    """Return the list of a need's devices: of those of a tag that are away, or of a program."""
    kind, _, what = need.key.partition(":")
    words = [f"tag:{name}" for name in tag]
    words += {"outage": ["state:away"], "program": [f"program:{what}"]}.get(kind, [])
    url, count = addresses.fleet_url(filter=" ".join(words)), in_words(len(need.devices))
    return Doing(text=f"See the {count}", url=url, acts=False, of="devices")


def _doing(name: str, of: str = "", **fields: str) -> Doing:
    url = addresses.action_url(name, **fields)
    return Doing(text=f"{ACTIONS[name].title}…", url=url, acts=True, of=of)


def _look(need: Need) -> Doing | None:
    if len(need.devices) == 1:
        name = need.devices[0]
        return Doing(text=f"Open {name}", url=addresses.device_url(name), acts=False)
    if need.index is not None:
        return Doing(text=f"See #{need.index:,}", url=addresses.entry_url(need.index), acts=False)
    return None
