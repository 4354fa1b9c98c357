"""Units: what they say, and what systemd's own tools say of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.runtime.errors import InvalidValueError
from fleetledger.runtime.systemd_units import ServiceUnit, UnitKind

KINDS = list(UnitKind)
MOST_EXPOSURE = 2.0
with_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not here (`apt install systemd`)",
)


def analyse(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def program(folder: Path) -> Path:
    """Return a program that may be run, which `verify` asks for."""
    file = folder / "fleetledger"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@with_systemd
@pytest.mark.parametrize("kind", KINDS)
def test_systemd_finds_nothing_wrong(tmp_path: Path, kind: UnitKind) -> None:
    file = tmp_path / kind.file_name
    file.write_text(ServiceUnit(kind, program=program(tmp_path)).text())
    done = analyse("verify", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@with_systemd
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [(), ("video", "render")])
def test_the_exposure_is_small(tmp_path: Path, kind: UnitKind, groups: tuple[str, ...]) -> None:
    file = tmp_path / kind.file_name
    file.write_text(ServiceUnit(kind, groups=groups).text())
    done = analyse("security", "--offline=true", str(file))
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSURE


@pytest.mark.parametrize("kind", KINDS)
def test_it_notifies_and_is_watched(kind: UnitKind) -> None:
    lines = ServiceUnit(kind).text().splitlines()
    assert "Type=notify" in lines
    assert "NotifyAccess=main" in lines
    assert any(line.startswith("WatchdogSec=") for line in lines)
    assert "Restart=always" in lines


def test_a_home_below_var_lib_is_made_by_systemd() -> None:
    lines = ServiceUnit(UnitKind.AGENT).text().splitlines()
    assert "StateDirectory=fleetledger" in lines
    assert (
        "ExecStart=/opt/fleetledger/bin/fleetledger agent run --home /var/lib/fleetledger" in lines
    )


def test_another_home_may_be_written_and_no_other_folder() -> None:
    lines = ServiceUnit(UnitKind.AGENT, home=Path("/data/agent")).text().splitlines()
    assert "ReadWritePaths=/data/agent" in lines
    assert "ProtectSystem=strict" in lines
    assert not any(line.startswith("StateDirectory") for line in lines)


def test_homes_of_people_are_seen_only_where_something_lies_there() -> None:
    hidden = ServiceUnit(UnitKind.AGENT, data=Path("/data/images")).text()
    seen = ServiceUnit(UnitKind.AGENT, data=Path("/home/ana/images")).text()
    assert "ProtectHome=yes" in hidden
    assert "ProtectHome=read-only" in seen


@pytest.mark.parametrize("path", ["/a b", "relative", "/a%i", "/a\nUser=root"])
def test_a_path_that_a_unit_cannot_name_is_refused(path: str) -> None:
    with pytest.raises(InvalidValueError):
        ServiceUnit(UnitKind.AGENT, home=Path(path)).text()


def test_the_command_prints_what_is_installed() -> None:
    done = CliRunner().invoke(app, ["unit", "coordinator", "--user", "ana"])
    assert done.exit_code == 0
    assert done.stdout == ServiceUnit(UnitKind.COORDINATOR, user="ana").text()
