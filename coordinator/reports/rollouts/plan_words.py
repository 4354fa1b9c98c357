"""A plan of a rollout as people write it: options of the command line, or a TOML file."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.rollouts.plan import OFF, GatePlan, RolloutPlan
from fleetledger.runtime.user_text import decode_text
from fleetledger.schemas.message import explain
from fleetledger.schemas.tags import TagSelector

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?")
_HOURS = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")


class ShadowIn(str, Enum):
    """Groups that measure a candidate beside their model before they run it."""

    OFF = "off"
    FIRST = "first"
    ALL = "all"


class Approver(str, Enum):
    """Who lets a group go."""

    OPERATOR = "operator"
    RELEASE_KEY = "release-key"


class OnFail(str, Enum):
    """What a gate that fails does."""

    BACK = "back"
    PAUSE = "pause"


def plan_of(file: Path | None, options: Mapping[str, object]) -> RolloutPlan:
    """Return the plan of a file and of options, which come first; raise `CommandError`.

    The file has the fields of `RolloutPlan`, or the words of the options.
    """
    told = {} if file is None else dict(_fields(_read(file)))
    said = dict(_fields({name: value for name, value in options.items() if value is not None}))
    if "gates" in told and "gates" in said:
        said["gates"] = {**told["gates"], **said["gates"]}
    try:
        return RolloutPlan.model_validate(told | said)
    except ValidationError as error:
        raise CommandError(f"plan: {explain(error)}") from error


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = tomllib.loads(decode_text(file.read_bytes()))
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: is no TOML: {error}") from error
    return found


def _fields(told: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in told.items():
        match name:
            case "groups":
                yield name, _groups(value)
            case "tags" | "tag":
                yield "tags", tuple(map(_tag, [value] if isinstance(value, str) else value))
            case "soak":
                yield "soak_seconds", _seconds(name, value)
            case "deadline":
                yield "deadline_hours", _seconds(name, value) / 3600
            case "hours":
                yield name, _hours(value)
            case "gates":
                yield name, (dict(map(_gate, value)) if isinstance(value, list | tuple) else value)
            case _:
                yield name, value.value if isinstance(value, Enum) else value


def _groups(value: object) -> object:
    items = value.split(",") if isinstance(value, str) else value
    return tuple(map(_size, items)) if isinstance(items, list | tuple) else items


def _size(item: object) -> object:
    """Return `5%` as a share; a number that is written with a point is one, too."""
    if not isinstance(item, str):
        return item
    text = item.strip()
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise CommandError(
            f"groups: {item!r} is neither a number of devices, such as 3, nor a share, such as 5%"
        ) from error


def _tag(item: object) -> object:
    return TagSelector.parse(item) if isinstance(item, str) else item


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) * (3600 if name == "deadline" else 1)
    found = _TIME.fullmatch(str(value).strip())
    if found is None:
        raise CommandError(f"{name}: {value!r} is no time; write 90s, 30m, 1h or 2d")
    return float(found[1]) * _UNITS[found[2] or ("h" if name == "deadline" else "s")]


def _hours(value: object) -> object:
    if not isinstance(value, str):
        return value
    found = _HOURS.fullmatch(value.strip())
    if found is None:
        raise CommandError(f"hours: {value!r} is not such as 22:00-05:00")
    begins, ends = (int(found[n]) * 60 + int(found[n + 1]) for n in (1, 3))
    return {"begins": begins, "ends": ends}


def _gate(text: str) -> tuple[str, float | str]:
    name, equals, limit = text.partition("=")
    if not equals or name not in GatePlan.model_fields:
        known = ", ".join(GatePlan.model_fields)
        raise CommandError(f"gate: {text!r} is not NAME=VALUE; names are {known}")
    if limit == OFF:
        return name, OFF
    try:
        return name, float(limit) if "." in limit else int(limit)
    except ValueError as error:
        raise CommandError(f"gate: {limit!r} is neither a number nor off") from error
