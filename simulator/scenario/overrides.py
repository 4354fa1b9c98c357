"""`--set section.field=value` and `--unset section.field`: a scenario from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fleetledger.runtime.errors import cut
from fleetledger.runtime.setting_faults import section_at, unknown
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Content = dict[str, Any]
FREE = (("method", "settings"), ("method", "first_stage", "settings"), ("stages", "options"))
"""Sections whose fields are a method's or a plan's, not the scenario's."""


class Unset(str):
    """Name of a field, among overrides, that is left out whatever a scenario says."""

    __slots__ = ()


def read_overrides(overrides: Sequence[str]) -> Content:
    """Return what the overrides set, nested like a scenario; a later one wins.

    None stands for what is left out.

    A value is TOML, and text that is not TOML is taken as it stands: `seeds=[1, 2]`,
    `data.root=/data/cifar`. Raises `ScenarioError` for an unknown field, with the nearest one.
    """
    content: Content = {}
    for override in overrides:
        if isinstance(override, Unset):
            path = tuple(part.strip() for part in override.split("."))
            _check(f"--unset {override}", path)
            _put(content, f"--unset {override}", path, None)
            continue
        name, equals, text = override.partition("=")
        path = tuple(part.strip() for part in name.split("."))
        if not equals or not all(path):
            raise ScenarioError(
                f"--set {override}: no setting and value; write it like "
                "--set method.settings.ridge=1e5"
            )
        _check(f"--set {override}", path)
        _put(content, f"--set {override}", path, read_value(text))
    return content


def read_value(text: str) -> Any:  # noqa: ANN401 - any TOML value
    """Return a value of the command line: TOML, or the text as it stands."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    value = parsed["value"]
    plain = len(parsed) == 1 and isinstance(value, bool | int | float | str | list | dict)
    return value if plain else text.strip()  # dates and several lines are no values of a scenario


def merge(content: Content, changes: Content) -> Content:
    """Return `content` with `changes`: sections are merged, values and lists are replaced.

    None leaves out what the content says.
    """
    merged = dict(content)
    for name, value in changes.items():
        old = merged.get(name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge(old if isinstance(old, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _check(option: str, path: tuple[str, ...]) -> None:
    """Raise `ScenarioError` unless a scenario has this field."""
    for depth, part in enumerate(path):
        above = path[:depth]
        if above in FREE:
            return
        section = section_at(Scenario, above)
        if section is None:
            raise ScenarioError(
                f"{option}: {'.'.join(above)} is a value and has no settings below it; "
                f"write --set {'.'.join(above)}=VALUE"
            )
        if part not in section.model_fields:
            told = unknown(".".join(path[: depth + 1]), part, section.model_fields)
            hint = "" if depth else "; settings of a method are method.settings.NAME"
            raise ScenarioError(f"{cut(option, 100)}: {told}{hint}")


def _put(content: Content, option: str, path: tuple[str, ...], value: Any) -> None:  # noqa: ANN401
    *sections, last = path
    for name in sections:
        below = content.setdefault(name, {})
        if not isinstance(below, dict):
            raise ScenarioError(
                f"{option}: {name} is set or left out as a whole already; do it once"
            )
        content = below
    content[last] = value
