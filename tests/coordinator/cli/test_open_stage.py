"""`fleetledger coordinator open-stage` asks, or says what a script has to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetledger.coordinator.cli import coordinator as cli
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.runtime import command_output
from fleetledger.runtime.errors import NobodyToAskError
from fleetledger.runtime.exit_codes import ExitCode
from tests.coordinator.cli.test_models import run
from tests.coordinator.core.harness import Bench, contribution
from tests.coordinator.reports import of_home
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.stages.test_opening_is_asked import report
from tests.schemas import signing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fleet whose first stage is open for two devices, of which one has answered."""
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a"))
    report(bench, "dev-1", "rose")
    write(tmp_path, bench)
    write_new(tmp_path, CoordinatorSettings(fleet=signing.FLEET))
    return tmp_path


def stages(home: Path) -> list[tuple[str, ...]]:
    return [row.class_names for row in of_home.stages(home)]


def test_where_nobody_can_be_asked_it_refuses_with_the_way_out(home: Path) -> None:
    with pytest.raises(NobodyToAskError, match="nothing was done: say --yes"):
        run(home, "open-stage", "rosee", app=cli.app)
    assert stages(home) == [("cat", "dog")]
    run(home, "open-stage", "rosee", "--yes", app=cli.app)
    assert stages(home) == [("cat", "dog"), ("rosee",)]


def test_a_script_is_told_by_the_exit_code_and_the_option_that_answers(home: Path) -> None:
    words = ["-m", "fleetledger", "coordinator", "open-stage", "rosee", "--home", str(home)]
    done = subprocess.run(
        [sys.executable, *words, "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (ExitCode.NEEDS_A_PERSON, "")
    assert "'rosee' is reported by no device" in done.stderr
    assert "nothing was done: say --yes if it is meant so" in done.stderr
    assert stages(home) == [("cat", "dog")]


def test_somebody_who_is_there_is_asked_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(command_output, "sys", terminal)
    shown = run(home, "open-stage", "rosee", app=cli.app, text="n\n").output
    assert "'rosee' is reported by no device, but 'rose' by dev-1" in shown
    assert "1 of 2 devices has not answered yet: dev-2" in shown
    assert stages(home) == [("cat", "dog")]
    assert run(home, "open-stage", "rosee", app=cli.app, text="y\n").exit_code == 0
    assert len(stages(home)) == 2


def test_a_stage_without_doubts_opens_at_once(home: Path) -> None:
    run(home, "close-stage", app=cli.app)
    assert "stage 2 is open for rose" in run(home, "open-stage", "rose", app=cli.app).output


def test_a_file_is_no_class(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("classes.txt").write_text("rose\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"'classes\.txt' is a file; write the names"):
        run(home, "open-stage", "classes.txt", "--yes", app=cli.app)
    assert stages(home) == [("cat", "dog")]
