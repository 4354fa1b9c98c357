"""Settings files that say what each setting means, and are read as what was written."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import BaseModel

from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.settings import CoordinatorSettings, load, write_new
from fleetledger.device_agent.settings import AgentDataSettings, AgentSettings
from fleetledger.runtime.commented_toml import commented_toml
from fleetledger.runtime.field_docs import meaning_of
from fleetledger.runtime.setting_faults import model_in
from fleetledger.transport.tls import TlsSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

AGENT = AgentSettings(device="cam", fleet="mill", data=AgentDataSettings(folder=Path("d")))
PROGRAMS = [AGENT, ProxyHomeSettings(fleet="mill")]
COORDINATOR = CoordinatorSettings(fleet="mill")
TLS = TlsSettings(certificate_file=Path("a.pem"), key_file=Path('a "b".key'))


def changed(settings: BaseModel) -> BaseModel:
    """Settings with a section that is not there by default, and a whole number."""
    broker = settings.broker.model_copy(update={"port": 8883, "tls": TLS})
    return settings.model_copy(update={"broker": broker})


@pytest.mark.parametrize("settings", [*PROGRAMS, *map(changed, PROGRAMS)])
def test_what_is_written_is_read_back(settings: BaseModel) -> None:
    text = commented_toml(settings, "Settings.")
    assert type(settings).model_validate(tomllib.loads(text)) == settings
    assert max(map(len, text.splitlines())) <= 100


def test_tables_and_tags_are_read_back() -> None:
    settings = AGENT.model_copy(update={"tags": {"site": "north", "gpu": "orin"}})
    assert AgentSettings.model_validate(tomllib.loads(commented_toml(settings, ""))) == settings


def test_a_coordinators_file_is_read_back(tmp_path: Path) -> None:
    write_new(tmp_path, changed(COORDINATOR))
    assert load(tmp_path) == changed(COORDINATOR)


@pytest.mark.parametrize("settings", [*PROGRAMS, COORDINATOR])
def test_every_setting_has_a_docstring(settings: BaseModel) -> None:
    assert not silent_fields(type(settings))


@pytest.mark.parametrize("settings", PROGRAMS)
def test_every_line_has_words_above_it(settings: BaseModel) -> None:
    lines = commented_toml(settings, "Settings.").splitlines()
    for before, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert before.startswith("# "), line


def silent_fields(model: type[BaseModel]) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        if inner is not None:
            found += silent_fields(inner)
        elif not meaning_of(model, name):
            found.append(f"{model.__name__}.{name}")
    return found


def test_what_is_none_is_shown_with_an_example() -> None:
    lines = commented_toml(AGENT, "Settings.").splitlines()
    assert '# root = "root.json"' in lines
    assert "# [broker.tls]" in lines
    assert lines[lines.index("[tags]") + 1] == '# site = "orchard-1"'


def test_brief_sections_are_named_or_dumped_or_left_out() -> None:
    brief = {"model": {}, "inbox": {"images": 5}, "policy": None}
    lines = commented_toml(AGENT, "Settings.", brief).splitlines()
    assert "# [model]" in lines
    assert lines[lines.index("[inbox]") + 1] == "images = 5"
    assert not any("[policy]" in line for line in lines)
