"""What the command line promises before any room has answered."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from fleetledger import command_line
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.pip_command import pip_install
from tests.rooms import ROOMS

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "onnx", "onnxruntime", "pydantic", "sqlite_utils", "paho", "PIL")
ANSI = re.compile(r"\x1b\[[0-9;]*m")

stand_in = typer.Typer()


@stand_in.command()
def refuse() -> None:
    raise FleetledgerError("stage: 7 is not open; open it with `coordinator open-stage`")


@stand_in.command()
def import_what(package: str) -> None:
    __import__(package)


@stand_in.command()
def stumble() -> None:
    raise RuntimeError("a bug")


homes = typer.Typer()


@homes.callback()
def of_homes() -> None:
    """Stand for a verb with a status."""


@homes.command("status")
def tell_home(
    home: Annotated[Path, typer.Option()], json: Annotated[bool, typer.Option("--json")] = False
) -> None:
    typer.echo(f"status of {home}, json {json}")


def greet(name: str = "nobody") -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetledger", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `main` here, with a stand-in behind `agent` and a function behind `demo`."""
    monkeypatch.setitem(command_line.VERBS, "agent", command_line.Verb(f"{__name__}:stand_in", "x"))
    monkeypatch.setitem(command_line.VERBS, "demo", command_line.Verb(f"{__name__}:greet", "x"))
    return leave(monkeypatch, *arguments)


def leave(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `main` here and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["fleetledger", *arguments])
    with pytest.raises(SystemExit) as leaving:
        command_line.main()
    return int(leaving.value.code or 0)


def cpu_seconds(*arguments: str) -> float:
    """Return user and system time of a child that runs `fleetledger ARGUMENTS`."""
    child = subprocess.Popen(
        [sys.executable, "-m", "fleetledger", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_lists_every_verb_with_its_purpose() -> None:
    page = " ".join(ANSI.sub("", run("--help").stdout).replace("│", " ").split())
    for verb in ("agent", "coordinator", "class", "model", "ledger", "demo", "version"):
        assert f" {verb} " in page
    for verb in command_line.VERBS.values():
        assert verb.help in page


def test_help_takes_less_than_half_a_second_of_cpu_time() -> None:
    # Of three runs the best counts, because the first may compile and the machine may be busy.
    assert min(cpu_seconds("--help") for _ in range(3)) < 0.5


def test_help_imports_no_heavy_package_and_no_room() -> None:
    program = (
        "import sys\nfrom fleetledger import command_line\n"
        "sys.argv = ['fleetledger', '--help']\n"
        "try: command_line.main()\n"
        "except SystemExit: pass\n"
        "print('IMPORTED', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.partition("IMPORTED")[2].split())
    assert "typer" in imported
    assert not imported & {*HEAVY, *(f"fleetledger.{room}" for room in ROOMS)}


def test_a_wrong_verb_is_named_and_gives_exit_code_two() -> None:
    done = run("agnet")
    assert done.returncode == 2
    assert "agnet" in done.stderr


def test_version_names_the_release() -> None:
    assert run("version").stdout.startswith("fleetledger ")
    assert run("--version").stdout == run("version").stdout


def test_arguments_reach_a_verb_that_is_a_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "demo", "--name", "fleet") == 0
    assert capsys.readouterr().out == "hello fleet\n"


def test_the_help_of_a_verb_is_that_of_its_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "agent", "--help") == 0
    page = ANSI.sub("", capsys.readouterr().out)
    assert "fleetledger agent" in page
    assert "import-what" in page


def test_an_error_on_purpose_is_its_text_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(command_line.DEBUG_VARIABLE, raising=False)
    assert call(monkeypatch, "agent", "refuse") == 1
    heard = capsys.readouterr()
    assert heard.err == (
        "fleetledger: stage: 7 is not open; open it with `coordinator open-stage`\n"
    )
    assert heard.out == ""


@pytest.mark.parametrize("package", sorted(command_line.EXTRAS))
def test_a_missing_extra_is_one_sentence_with_the_command_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(command_line.DEBUG_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    assert call(monkeypatch, "agent", "import-what", package) == 1
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert pip_install(command_line.EXTRAS[package]) in text


def test_every_extra_that_is_named_exists() -> None:
    declared = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(command_line.EXTRAS.values()) <= set(declared)


def test_the_debug_option_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(command_line.DEBUG_VARIABLE, "0")  # so that it is put back afterwards
    with pytest.raises(FleetledgerError, match="stage: 7"):
        call(monkeypatch, "--debug", "agent", "refuse")


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        call(monkeypatch, "agent", "stumble")


def test_a_missing_module_of_our_own_is_a_bug() -> None:
    assert command_line.explain(ModuleNotFoundError("no", name="fleetledger.nowhere")) is None


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `fleetledger status` here, with stand-ins for what it asks."""
    for verb in command_line.HOMES:
        monkeypatch.setitem(command_line.VERBS, verb, command_line.Verb(f"{__name__}:homes", "x"))
    return leave(monkeypatch, "status", *arguments)


@pytest.mark.parametrize(
    ("home", "settings"),
    [("coordinator-home", "coordinator.toml"), ("agent-home", "agent.toml")],
)
def test_status_is_that_of_the_home_that_lies_here(
    home: str,
    settings: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (home, "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / settings).touch()
    assert status(monkeypatch, "--json") == 0
    assert capsys.readouterr().out == f"status of {home}, json True\n"
    assert status(monkeypatch, "--home", "elsewhere") == 0
    assert capsys.readouterr().out == "status of elsewhere, json False\n"


def test_status_names_the_device_beside_the_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, _, settings in command_line.HOMES.values():
        (tmp_path / settings).touch()
        monkeypatch.setenv(variable, str(tmp_path))
    assert status(monkeypatch) == 0
    said = capsys.readouterr()
    assert said.out == f"status of {tmp_path}, json False\n"
    assert said.err == f"also here: `fleetledger agent status --home {tmp_path}`\n"


def test_status_where_nothing_was_set_up_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(monkeypatch) == 1
    said = capsys.readouterr().err
    assert "fleetledger coordinator init" in said
    assert "fleetledger agent init" in said
