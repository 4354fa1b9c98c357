"""Containers: what their files name exists, nobody is root, and they are built where that goes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fleetledger import command_line
from tests.test_architecture import ROOT

FOLDER = ROOT / "docs" / "docker"
DOCKERFILES = sorted(FOLDER.glob("Dockerfile*"))
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
INSTRUCTIONS = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD", "EXPOSE"),
    *("HEALTHCHECK", "STOPSIGNAL"),
}
SHARED = {"wheel", "base"}
"""Stages that others are made of, and that nobody runs."""


@dataclass
class Stage:
    """A stage of a Dockerfile: what it is made of, and its instructions."""

    image: str
    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        return next((rest for word, rest in reversed(self.lines) if word == instruction), "")


def stages(file: Path) -> list[Stage]:
    """Read a Dockerfile; an instruction that nobody knows fails."""
    found: list[Stage] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        assert word in INSTRUCTIONS, f"{file.name}: {line}"
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            found.append(Stage(image, name))
        else:
            found[-1].lines.append((word, rest))
    return found


def run_stages() -> list[Stage]:
    return [stage for file in DOCKERFILES for stage in stages(file) if stage.name not in SHARED]


def context_of(file: Path) -> Path:
    """Return the folder whose files a Dockerfile copies, as compose says."""
    (context,) = {
        FOLDER / service["build"]["context"]
        for service in SERVICES.values()
        if (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).samefile(file)
    }
    return context


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_what_is_copied_exists_and_is_not_ignored(file: Path) -> None:
    kept = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    for stage in stages(file):
        for word, rest in stage.lines:
            if word == "COPY" and not rest.startswith("--from="):
                for source in rest.split()[:-1]:
                    assert (context_of(file) / source).exists(), source
                    assert source in kept, f"{source} is left out by .dockerignore"


def test_every_package_is_in_the_image() -> None:
    copied = " ".join(rest for word, rest in stages(FOLDER / "Dockerfile")[0].lines)
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert {package for package in packages if f"{package} {package}" not in copied} == set()


@pytest.mark.parametrize("stage", run_stages(), ids=lambda stage: stage.name or stage.image)
def test_nobody_runs_as_root(stage: Stage) -> None:
    user = stage.last("USER").partition(":")[0]
    assert user.isdecimal()
    assert int(user) > 0


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_images_have_a_version(file: Path) -> None:
    names = {stage.name for stage in stages(file)}
    for stage in stages(file):
        assert stage.image in names or re.fullmatch(r"[a-z-]+:\d[\w.-]*", stage.image), stage.image


def test_extras_that_are_installed_are_the_packages_own() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for stage in stages(FOLDER / "Dockerfile"):
        for extras in re.findall(r"\.whl\)\[([a-z,]+)\]", stage.last("RUN")):
            for extra in extras.split(","):
                assert f"\n{extra} = [" in text


def test_what_a_container_runs_is_a_command_with_its_options() -> None:
    for stage in stages(FOLDER / "Dockerfile"):
        if stage.name in SHARED:
            continue
        verb, *words = json.loads(stage.last("CMD"))
        command = command_line.load(verb)
        assert isinstance(command, typer.core.TyperCommand | typer.core.TyperGroup)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        meant = [command, *getattr(command, "commands", {}).values()]
        options = {name for one in meant for parameter in one.params for name in parameter.opts}
        assert [word for word in words if word.startswith("--") and word not in options] == []


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_built_of_what_is_there_and_has_few_rights(name: str) -> None:
    service = SERVICES[name]
    build = service["build"]
    file = FOLDER / build["context"] / build["dockerfile"]
    assert file.exists()
    if "target" in build:
        assert build["target"] in {stage.name for stage in stages(file)}
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "pid", "user"} & set(service)
    assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_the_broker_sees_its_own_folder_alone() -> None:
    assert SERVICES["broker"]["volumes"] == ["./fleet/kits/broker:/mosquitto/fleet"]


def test_the_dashboard_sees_the_home_and_no_key_of_the_ca_beside_it() -> None:
    home = "/fleet/coordinator-home"
    assert SERVICES["dashboard"]["volumes"] == [f".{home}:{home}"]


def test_coordinator_broker_dashboard_and_simulator_are_there() -> None:
    assert set(SERVICES) == {"coordinator", "broker", "dashboard", "simulator"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_images_are_built_where_a_builder_is_at_hand(name: str) -> None:
    docker = shutil.which("docker") or "/usr/bin/false"
    if subprocess.run([docker, "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no builder answers (`docker info`)")
    build = SERVICES[name]["build"]
    words = [docker, "build", "--file", str(FOLDER / build["context"] / build["dockerfile"])]
    words += ["--target", build["target"]] if "target" in build else []
    done = subprocess.run(
        [*words, str(FOLDER / build["context"])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
