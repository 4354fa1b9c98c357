"""`fleetledger model rollback`, `model list` and `coordinator status`, run as commands."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from fleetledger.coordinator.cli import coordinator as coordinator_cli
from fleetledger.coordinator.cli import models as cli
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.models.commands import GoBack, PushModel
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.runtime import command_output
from fleetledger.runtime.errors import NobodyToAskError
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core import harness
from tests.coordinator.core.harness import exported, names
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.models.test_going_back import with_models
from tests.coordinator.topics.releases.test_releases import ReleasingBench
from tests.schemas import signing


def measured(version: int, correct: int) -> Evaluation:
    return Evaluation(
        version=version,
        manifest=exported(version).manifest.digest,
        results={names("cat")[0]: ClassResult(correct=correct, total=40)},
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=10,
        bytes_down=20,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three models for all; 2 and 3 are measured; dev-2 tries the first."""
    bench = with_models(3)
    bench.message("dev-1", measured(2, 38))
    bench.message("dev-2", measured(2, 36))
    bench.message("dev-1", measured(3, 20))
    bench.command(PushModel(version=1, devices=(DeviceId("dev-2"),)))
    write(tmp_path, bench)
    write_new(tmp_path, CoordinatorSettings(fleet=signing.FLEET))
    return tmp_path


def run(home: Path, *words: str, app: object = cli.app, text: str = "") -> Result:
    result = CliRunner().invoke(
        app,  # type: ignore[arg-type]
        [*words, "--home", str(home)],
        input=text,
        env={"COLUMNS": "200"},
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def somebody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(command_output, "sys", terminal)


def test_going_back_names_both_versions_with_their_accuracy_and_what_stays(home: Path) -> None:
    with pytest.raises(NobodyToAskError, match="say --to 2, or --yes"):
        run(home, "rollback")
    shown = run(home, "rollback", "--to", "2").output
    assert shown.splitlines() == [
        "all devices are to run model 3 (2 classes, accuracy 50.0 % on 1 device)",
        "model 1 is tried on dev-2, which stays so",
        "to go back to: model 2 (2 classes, accuracy 92.5 % on 2 devices); "
        "new models are held then",
        "group by group, as long as devices measure that it holds: `fleetledger rollout plan 2 "
        f"--home {home}`",
        "model 2 is desired of all devices, which were to run 3; model 1 stays on dev-2; "
        f"new models are held until `fleetledger model hold --release --home {home}`",
    ]


def test_a_push_names_who_leaves_which_model_and_what_it_does_not_know(home: Path) -> None:
    with pytest.raises(NobodyToAskError, match="nothing was done: say --yes"):
        run(home, "push", "1")
    shown = run(home, "push", "2", "--yes").output.splitlines()
    assert shown[:-1] == [
        "to model 2 (2 classes, accuracy 92.5 % on 2 devices)",
        "from no model: 2 devices",
        "devices that are here switch as soon as they have it, others when they come back; "
        "nothing waits for what they measure",
        "group by group, as long as devices measure that it holds: `fleetledger rollout plan 2 "
        f"--home {home}`",
    ]
    assert shown[-1].startswith("model 2 goes to all devices")
    with pytest.raises(CommandError, match="version: 9 is not a model"):
        run(home, "push", "9", "--yes")


def test_a_push_says_how_much_each_device_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def large(version: int) -> ModelExported:
        made = exported(version)
        head, *others = made.files
        frozen = others[0].model_copy(update={"size": 98_100_000, "block_size": 1 << 18})
        return made.model_copy(update={"files": (head, frozen, *others[1:])})

    monkeypatch.setattr(harness, "exported", large)
    bench = with_models(2)
    write(tmp_path, bench)
    write_new(tmp_path, CoordinatorSettings(fleet=signing.FLEET))
    shown = run(tmp_path, "push", "2", "--yes").output.splitlines()
    assert shown[1] == "from no model: 2 devices, 98.1 MB to fetch"


@pytest.mark.usefixtures("somebody_is_there")
def test_a_push_that_is_not_meant_sends_nothing(home: Path) -> None:
    assert run(home, "push", "1", text="n\n").exit_code == 1
    assert "model 1 goes to all devices" not in run(home, "push", "1", text="n\n").output
    assert "model 1 goes to all devices" in run(home, "push", "1", text="y\n").output


def test_the_list_says_how_well_each_version_did(home: Path) -> None:
    shown = run(home, "list").output
    assert "92.5 % on 2 devices" in shown
    assert "50.0 % on 1 device" in shown


@pytest.mark.usefixtures("somebody_is_there")
def test_going_back_asks_and_does_nothing_without_a_yes(home: Path) -> None:
    assert run(home, "rollback", text="n\n").exit_code == 1
    assert "held" not in run(home, "list").output
    assert run(home, "rollback", text="y\n").exit_code == 0
    assert "models are held" in run(home, "list").output


def test_list_and_status_say_that_models_are_held_and_what_releases_them(home: Path) -> None:
    for app, verb in ((cli.app, "list"), (coordinator_cli.app, "status")):
        before = run(home, verb, app=app).output
        assert "model 1 is tried on dev-2" in before
        assert "held" not in before
    run(home, "rollback", "--yes", "--canaries")
    for app, verb in ((cli.app, "list"), (coordinator_cli.app, "status")):
        shown = run(home, verb, app=app).output
        assert "models are held" in shown
        assert f"`fleetledger model hold --release --home {home}`" in shown
        assert "tried on" not in shown
    run(home, "hold", "--release")
    assert "held" not in run(home, "list").output


def test_a_release_for_a_device_that_stays_waits_on_after_going_back(tmp_path: Path) -> None:
    bench = ReleasingBench(key=None, root=signing.root())
    bench.sign(1)
    bench.more()
    bench.command(PushModel(version=1, devices=(DeviceId("dev-2"),)))
    bench.command(GoBack())
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        found = [(push.version, push.devices) for push in release_views.waiting(ledger)]
    assert found == [(1, ("dev-2",)), (1, None)]
