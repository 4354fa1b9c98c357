"""A scenario by name or from a file, with what the command line sets, checked before it runs."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from fleetledger.coordinator.topics.rollouts.plan import plan_content
from fleetledger.methods.registry import METHODS
from fleetledger.methods.steps import MethodSteps
from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.runtime.user_text import decode_text
from fleetledger.simulator.datasets.loading import DataSettings
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.method_check import check_method
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.overrides import (
    Content,
    merge,
    read_overrides,
)
from fleetledger.simulator.scenario.sections import (
    ONLY_WITHOUT_LISTS,
    MethodSettings,
    StageSettings,
)
from fleetledger.simulator.scenario.shipped import shipped_names, shipped_text
from fleetledger.simulator.scenario.studies import study_names
from fleetledger.simulator.scenario.trainer import JOINT, JOINT_TRAINS_AS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATHS = (
    ("data", "root"),
    ("stages", "file"),
    ("backbone", "file"),
    ("backbone", "weights"),
    ("method", "first_weights"),
    ("method", "public_images"),
    ("method", "trunk"),
)
"""Fields that hold a path; in a file it is relative to the file, in `--set` to where one stands."""
_LEAVE_OUT = re.compile(r"\bleave\b[^;.]*\bout\b")
MOST_BASES = 4
"""Scenarios that stand behind one another, each the base of the next."""
DATA_VARIABLE = "FLEETLEDGER_DATA"
"""Names the folder that files of scenarios that ship lie in; else it is where one stands."""


def load_scenario(path_or_name: str, overrides: Sequence[str] = ()) -> Scenario:
    """Return the scenario in a TOML file, or the one that ships under a name.

    Paths come out absolute. Raises `ScenarioError` naming file, field, value and what is allowed.
    """
    return scenario_of(path_or_name, read_overrides(overrides))


def scenario_of(told: str | os.PathLike[str] | Mapping[str, Any], changes: Content) -> Scenario:
    """Return the scenario of a name, a file or a mapping, with changes over it.

    A mapping is what a file would hold, and may have a `base`; a section may be an object whose
    `as_section()` returns it: a method of one's own, which is registered. Paths in it, as in the
    changes, are relative to where one stands. Raises as `load_scenario` does.
    """
    here = Path.cwd()
    over = resolve_paths(plain_content(changes), here)
    if not isinstance(told, Mapping):
        source, text, folder = _find(os.fspath(told))
        return parse_scenario(source, text, folder, over)
    content = changed(_over_base("scenario", resolve_paths(plain_content(told), here), here), over)
    if "title" not in content:
        content = {"title": _title(content), **content}
    return checked("scenario", content)


def plain_content(told: Mapping[str, Any]) -> Content:
    """Return a mapping as a file of it would be read: objects as their sections, paths as text."""
    plain: Content = {}
    for name, value in told.items():
        if isinstance(value, MethodSteps):
            METHODS.add(value.registered_name(), type(value))
        known = value.as_section() if hasattr(value, "as_section") else value
        if isinstance(known, os.PathLike):
            known = os.fspath(known)
        plain[name] = plain_content(known) if isinstance(known, Mapping) else known
    return plain


def _title(content: Content) -> str:
    method, data = (content.get(section) or {} for section in ("method", "data"))
    names = (method.get("name", MethodSettings().name), data.get("set", DataSettings().set))
    return " on ".join(map(str, names))


def parse_scenario(
    source: str, text: str, folder: Path, changes: Content | None = None
) -> Scenario:
    """Return the scenario in `text`; `source` and `folder` say where it is from."""
    return checked(source, changed(read_content(source, text, folder), changes or {}))


def checked(source: str, content: Content) -> Scenario:
    """Return a scenario with everything checked that can be before it runs."""
    try:
        scenario = Scenario.model_validate(merge({}, content))
    except ValidationError as error:
        text = f"{source}: {describe_faults(error, Scenario)}"
        raise ScenarioError(_with_way_out(text)) from error
    try:
        check_method(source, scenario)
    except ScenarioError as error:
        raise ScenarioError(_with_way_out(str(error))) from error
    return scenario


def _with_way_out(text: str) -> str:
    """Return an error's text; where a setting is to be left out, with the option that does it."""
    if "--unset" in text or not _LEAVE_OUT.search(text):
        return text
    return f"{text} (on the command line: --unset NAME)"


def load_content(path_or_name: str, folder: Path, above: tuple[str, ...] = ()) -> Content:
    """Return the whole content of what a file in `folder` names as its base.

    `above` are the files that this one is a base of. Raises `ScenarioError` for a cycle or too long
    a chain.
    """
    shipped = path_or_name in shipped_names()
    source, text, base_folder = _find(path_or_name if shipped else str(folder / path_or_name))
    if source in above:
        raise ScenarioError(
            f"{above[-1]}: base: {path_or_name!r} has it for a base itself, by "
            f"{' and '.join(above)}; leave one of them out"
        )
    if len(above) > MOST_BASES:
        raise ScenarioError(
            f"{above[0]}: base: a chain of more than {MOST_BASES} ({', '.join(above[1:])}, "
            f"{path_or_name}); name the one that most of it is from"
        )
    return read_content(source, text, base_folder, above)


def read_content(source: str, text: str, folder: Path, above: tuple[str, ...] = ()) -> Content:
    """Return what a file says over what its base says, with paths made absolute."""
    return _over_base(source, resolve_paths(read_toml(source, text), folder), folder, above)


def _over_base(source: str, content: Content, folder: Path, above: tuple[str, ...] = ()) -> Content:
    """Return content over that of the base that it names, if it does."""
    base = content.pop("base", None)
    if base is None:
        return content
    if not isinstance(base, str) or not base:
        raise ScenarioError(f"{source}: base: {base!r}; give the name of a scenario, or a file")
    return changed(load_content(base, folder, (*above, source)), content)


def read_toml(source: str, text: str) -> Content:
    """Return the content of a file; raise `ScenarioError`."""
    try:
        content: Content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{source}: not TOML: {error}; mend that line") from error
    except ValueError as error:
        raise ScenarioError(f"{source}: {error}") from error
    return content


def changed(content: Content, changes: Content) -> Content:
    """Return content with changes; another method or plan leaves out settings of the one before."""
    return merge(_for_plan(_for_method(content, changes), changes), changes)


def resolve_paths(content: Content, folder: Path) -> Content:
    """Return `content` with its paths made absolute, seen from `folder`; `~` is one's home."""
    resolved = content
    for section, field in PATHS:
        found = content.get(section)
        value = found.get(field) if isinstance(found, dict) else None
        if isinstance(value, str) and value and not _is_name_of_weights(field, value):
            absolute = folder.absolute() / Path(value).expanduser()
            resolved = merge(resolved, {section: {field: str(absolute)}})
    return resolved


def _for_method(content: Content, changes: Content) -> Content:
    """Return `content` without the method's settings where `changes` name another method."""
    old, new = content.get("method"), changes.get("method")
    if not isinstance(old, dict) or not isinstance(new, dict) or "name" not in new:
        return content
    default = MethodSettings().name
    if _whose_settings(old.get("name", default)) == _whose_settings(new["name"]):
        return content
    return content | {"method": {field: old[field] for field in old if field != "settings"}}


def _for_plan(content: Content, changes: Content) -> Content:
    """Return `content` without the plan's options and file where `changes` name another plan."""
    old, new = content.get("stages"), changes.get("stages")
    if not isinstance(old, dict) or not isinstance(new, dict) or "plan" not in new:
        return content
    if old.get("plan", StageSettings().plan) == new["plan"]:
        return content
    kept = {field: old[field] for field in old if field not in ("options", "file")}
    return content | {"stages": kept}


def _whose_settings(name: Any) -> Any:  # noqa: ANN401 - not checked yet
    return JOINT_TRAINS_AS if name == JOINT else name


def _is_name_of_weights(field: str, value: str) -> bool:
    """Whether weights are those that torchvision knows by name, such as `IMAGENET1K_V1`."""
    return field == "weights" and not Path(value).suffix and Path(value).name == value


def _find(path_or_name: str) -> tuple[str, str, Path]:
    """Return what to call the scenario in errors, its text, and the folder that it lies in."""
    names = shipped_names()
    if path_or_name in names:
        data = Path(os.environ.get(DATA_VARIABLE) or Path.cwd()).expanduser()
        return path_or_name, shipped_text(path_or_name), data
    path = Path(path_or_name).expanduser()
    try:
        return str(path), decode_text(path.read_bytes()), path.parent
    except FileNotFoundError as error:
        raise ScenarioError(_not_there(path_or_name, names)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}; give a TOML file") from error


def _not_there(path_or_name: str, names: Sequence[str]) -> str:
    if path_or_name in study_names():
        return (
            f"scenario: {path_or_name!r} is a study, which has several; run it by "
            f"`fleetledger simulate sweep {path_or_name}`"
        )
    close: list[Any] = difflib.get_close_matches(path_or_name, names, n=1)
    way_out = f"did you mean {close[0]!r}? " if close else ""
    return (
        f"scenario: {path_or_name!r} is no file, and none of this name ships; {way_out}"
        "`fleetledger simulate --list` shows those that do"
    )


def scenario_to_toml(scenario: Scenario) -> str:
    """Return the scenario as TOML; fields that are left out (None) stay so."""
    return tomli_w.dumps(scenario_content(scenario), multiline_strings=True)


def scenario_content(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario's fields as a file of it has them, nested by section."""
    content: dict[str, Any] = scenario.model_dump(mode="json", exclude_none=True)
    if scenario.rollout is not None:
        content["rollout"]["plan"] = plan_content(scenario.rollout.plan)
    if scenario.stages.lists:  # they say what these fields say, and may not stand beside them
        for field in ONLY_WITHOUT_LISTS:
            content["stages"].pop(field, None)
    return content
