"""A study: one scenario in several forms, as a paper's table has them, in one file.

    base = "cifar100-dcid-5"            # what all forms share, and any fields beside it,
    rounds.per_stage = 5                # as in a scenario

    [vary]                              # fields and their values: all combinations
    "method.settings.preset" = ["dcil-lucir-fedavg", "dcid-lucir"]

    [[case]]                            # and each of these with every combination
    name = "2 sites"
    devices.count = 2                   # fields as in a scenario

Cases say what goes together: sites and anchors, say, or what a paper prints of a form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.user_text import decode_text
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario import loading
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.overrides import Content, read_overrides
from fleetledger.simulator.scenario.studies import study_names, study_text

OF_STUDIES = ("vary", "case")
"""Tables that a study has and no scenario."""
_OWN = ("title", "description", "base", *OF_STUDIES)
"""What a study says of itself; anything else is a scenario's."""


class Study(Strict):
    """The file of a study; its scenarios are checked when they are made."""

    title: str = Field(min_length=1)
    """One line for tables."""
    description: str = ""
    """What is compared, from which paper it is, and how it differs from it."""
    base: str = Field(min_length=1)
    """The scenario that its forms share: the name of one that ships, or a file."""
    vary: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Fields, and the values that each is given in turn."""
    case: tuple[dict[str, Any], ...] = ()
    """Forms: a name each, and fields as in a scenario."""
    shared: dict[str, Any] = Field(default_factory=dict)
    """What the file says beside all this: fields of all forms, as in a scenario."""

    def forms(self) -> Iterator[tuple[str, list[Content]]]:
        """Yield the name of each form, and what changes the base into it, in order."""
        for case in self.case or ({},):
            own = {field: value for field, value in case.items() if field != "name"}
            for values in product(*self.vary.values()):
                varied = dict(zip(self.vary, values, strict=True))
                told = [f"{field}={json.dumps(value)}" for field, value in varied.items()]
                names = [str(case["name"])] if case else []
                names += [f"{field.rpartition('.')[2]}={v}" for field, v in varied.items()]
                yield ", ".join(names), [own, read_overrides(told)]


@dataclass(frozen=True)
class Form:
    """One scenario of those that a name stands for."""

    name: str
    """Within its study; empty of a scenario by itself."""
    scenario: Scenario


def load_forms(path_or_name: str, overrides: Sequence[str] = ()) -> list[Form]:
    """Return every scenario of a study, or the scenario of that name or file by itself.

    Raises `ScenarioError` naming file, form, field, value and what is allowed.
    """
    found = _find(path_or_name)
    if found is None:
        return [Form("", loading.load_scenario(path_or_name, overrides))]
    source, content, folder = found
    study = _read(source, content)
    base = loading.load_content(study.base, folder)
    last = loading.resolve_paths(read_overrides(overrides), Path.cwd())
    return [
        Form(name, _scenario(f"{source}, {name}", base | words, [study.shared, *changes, last]))
        for name, changes in study.forms()
        for words in ({"title": f"{study.title}: {name}", "description": study.description},)
    ]


def load_study(name: str) -> Study:
    """Return a study that ships; raise `ScenarioError` for a name that is none."""
    if name not in study_names():
        raise ScenarioError(f"study: {name!r} does not ship; there are {', '.join(study_names())}")
    return _read(name, loading.read_toml(name, study_text(name)))


def _scenario(source: str, content: Content, changes: Sequence[Content]) -> Scenario:
    for change in changes:
        content = loading.changed(content, change)
    return loading.checked(source, content)


def _find(path_or_name: str) -> tuple[str, Content, Path] | None:
    """Return source, content and folder of a study; None where it is a scenario, or nothing."""
    if path_or_name in study_names():
        return path_or_name, loading.read_toml(path_or_name, study_text(path_or_name)), Path.cwd()
    path = Path(path_or_name).expanduser()
    try:
        content = loading.read_toml(str(path), decode_text(path.read_bytes()))
    except (OSError, UnicodeDecodeError):
        return None  # whoever loads it as a scenario tells what is wrong
    return (str(path), content, path.parent) if set(OF_STUDIES) & set(content) else None


def _read(source: str, content: Content) -> Study:
    own = {name: content[name] for name in _OWN if name in content}
    shared = {name: content[name] for name in content if name not in _OWN}
    try:
        study = Study.model_validate(own | {"shared": shared})
    except ValidationError as error:
        raise ScenarioError(f"{source}: {describe_faults(error, Study)}") from error
    names = [case.get("name") for case in study.case]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ScenarioError(f"{source}: case: the names are {names}; give each case one of its own")
    if not study.vary and not study.case:
        raise ScenarioError(f"{source}: neither [vary] nor [[case]]; say what is compared")
    if not all(study.vary.values()):
        raise ScenarioError(f"{source}: vary: a field without values; give each at least one")
    return study
