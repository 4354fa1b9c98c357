"""Tables in the docs that are made from the source: gates, settings, scenarios.

`python -m tests.docs.tables` writes them into their pages; a test fails while one is stale. It
stands beside the tests because no room of the program may know all others.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.coordinator.topics.rollouts.gates import GATES
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.runtime.field_docs import describe_fields
from fleetledger.runtime.setting_faults import model_in
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.scenario_list import shipped_rows
from fleetledger.simulator.scenario.studies import study_names
from fleetledger.simulator.scenario.study import load_study

LINK = re.compile(r"docs/(?P<page>[\w/-]+)\.md(#(?P<part>[\w-]+))?")
DOCS = Path(__file__).parents[2] / "docs"
_BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
}
_TYPES = {"integer": "integer", "number": "number", "string": "text", "boolean": "true, false"}


def field_tables() -> str:
    """Return a heading and a table for the top of a scenario and for each section."""
    sections = "\n\n".join(_section(*section) for section in _sections(Scenario, ""))
    return _linked(sections, "scenarios")


def shipped_table() -> str:
    """Return the scenarios that ship."""
    head = "| name | what | data | devices | stages | seeds | needs |\n" + "| --- " * 7 + "|\n"
    return head + "\n".join(
        f"| `{row.name}` | {row.title} | {row.data} | {row.devices} | {row.stages} | {row.seeds} | "
        f"{row.needs} |"
        for row in shipped_rows()
    )


def studies_table() -> str:
    """Return the studies that ship."""
    head = "| name | what | base | forms |\n" + "| --- " * 4 + "|\n"
    studies = {name: load_study(name) for name in study_names()}
    return head + "\n".join(
        f"| `{name}` | {study.title} | `{study.base}` | {sum(1 for _ in study.forms())} |"
        for name, study in studies.items()
    )


def gates_table() -> str:
    """Return the gates of rollouts."""
    head = "| gate | looks at | fails when | `--gate` |\n" + "| --- " * 4 + "|\n"
    return head + "\n".join(
        f"| {gate.title} | {gate.looks_at} | {gate.fails_when} | "
        f"{', '.join(f'`{name}`' for name in gate.settings)} |"
        for gate in GATES
    )


def settings_table(model: type[BaseModel], page: str, *without: str) -> str:
    """Return all settings of a program, or of one section, but for some sections."""
    head = "| setting | allowed | default | meaning |\n" + "| --- " * 4 + "|\n"
    return head + "\n".join(_settings(model, "", page, without))


def _settings(
    model: type[BaseModel], path: str, page: str, without: Collection[str]
) -> Iterator[str]:
    schema = model.model_json_schema()
    heading = f"[{path}] " if path else ""
    sections = {n: model_in(f.annotation) for n, f in model.model_fields.items()}
    for name, below in sections.items():
        if below is None and f"{path}.{name}".lstrip(".") not in without:
            field = model.model_fields[name]
            row = _row(f"{heading}{name}", field, schema["properties"][name], schema)
            yield _linked(row, page)
    for name, below in sections.items():
        full = f"{path}.{name}".lstrip(".")
        if below is not None and full not in without:
            yield from _settings(below, full, page, without)


def _linked(text: str, page: str) -> str:
    """Return text with links in place of paths, which a settings file has for its reader."""
    return LINK.sub(
        lambda found: (
            f"[{(found['part'] or found['page']).replace('-', ' ')}]"
            f"({'' if found['page'] == page else found['page'] + '.md'}"
            f"{'#' + found['part'] if found['part'] else ''})"
        ),
        text,
    )


def rounds_table() -> str:
    """Return the settings of rounds."""
    head = "| setting | allowed | default | meaning |\n" + "| --- " * 4 + "|\n"
    return head + "\n".join(_settings(RoundRules, "rounds", "rounds", ()))


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "agent.md": {"settings": partial(settings_table, AgentSettings, "agent")},
    "coordinator.md": {
        "settings": partial(
            settings_table,
            CoordinatorSettings,
            "coordinator",
            *("rounds", "rollouts.plan", "adapter.plan", "broker.tls"),
        )
    },
    "proxy.md": {"settings": partial(settings_table, ProxyHomeSettings, "proxy", "broker.tls")},
    "rounds.md": {"settings": rounds_table},
    "rollouts.md": {"gates": gates_table},
    "scenarios.md": {
        "fields": field_tables,
        "shipped": shipped_table,
        "studies": studies_table,
    },
}
"""Generated parts of each page, by their name there."""


def filled(name: str) -> str:
    """Return the text of a page with its generated parts up to date."""
    page = (DOCS / name).read_text(encoding="utf-8")
    describe_fields()
    for part, text_of in PARTS[name].items():
        begin, end = f"<!-- {part}: generated -->", f"<!-- end of {part} -->"
        before, _, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        assert ended, f"{name} has no place for {part}: {begin} … {end}"
        page = f"{before}{begin}\n{text_of()}\n{end}{after}"
    return page


def main() -> None:
    """Write all pages."""
    for name in PARTS:
        (DOCS / name).write_text(filled(name), encoding="utf-8")


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield path, model
    for name, field in model.model_fields.items():
        below = model_in(field.annotation)
        if below is not None:
            yield from _sections(below, f"{path}.{name}".lstrip("."))


def _section(path: str, model: type[BaseModel]) -> str:
    fields = {n: f for n, f in model.model_fields.items() if model_in(f.annotation) is None}
    heading = "### At the top\n\n" if not path else _heading(path, model)
    schema = model.model_json_schema()
    rows = [_row(name, fields[name], schema["properties"][name], schema) for name in fields]
    return (
        f"{heading}| field | allowed | default | meaning |\n| --- | --- | --- | --- |\n"
        + "\n".join(rows)
    )


def _heading(path: str, model: type[BaseModel]) -> str:
    text = " ".join((inspect.getdoc(model) or "").split())
    meaning = re.sub(r"^`\[+[a-z.]+\]+`: ", "", text)
    brackets = "[[{}]]" if f"[[{path}]]" in text else "[{}]"
    return f"### `{brackets.format(path)}`\n\n{meaning[0].upper()}{meaning[1:]}\n\n"


def _row(name: str, field: FieldInfo, schema: dict[str, Any], whole: dict[str, Any]) -> str:
    meaning = " ".join((field.description or "").split()).replace("|", "\\|")
    return f"| `{name}` | {_allowed(schema, whole)} | {_default(field)} | {meaning} |"


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return "must be given"
    if default is None:
        return "left out"
    return f"`{json.dumps(default, default=str)}`"


def _allowed(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return in words what a JSON Schema takes."""
    if "$ref" in schema:
        schema = {**whole["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    if "anyOf" in schema:
        given = [item for item in schema["anyOf"] if item.get("type") != "null"]
        return " or ".join(_allowed(item, whole) for item in given)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_allowed(schema.get('items') or schema['prefixItems'][0], whole)}"
    if schema["type"] == "object":
        return "table"
    bounds = [text.format(f"{schema[key]:.9g}") for key, text in _BOUNDS.items() if key in schema]
    return " ".join([_TYPES[schema["type"]], ", ".join(bounds)]).strip()


if __name__ == "__main__":
    main()
