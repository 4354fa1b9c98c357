"""Programs lead a fleet by calls that are made of the table of actions, and read it as data."""

from __future__ import annotations

import builtins
import inspect
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fleetledger as fl
from fleetledger import command_line
from fleetledger.coordinator.actions.calls import SURE, call_name, command_of, signature_of
from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.coordinator.client import Coordinator
from fleetledger.coordinator.errors import (
    CommandError,
    MissingLibraryError,
    OperatorTimeoutError,
    QuestionError,
)
from fleetledger.coordinator.ledger.lock import WriterLock, lock_path
from fleetledger.coordinator.paths import ledger_path
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.runtime.waiting import WaitTimeoutError
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.dashboard.served import a_fleet
from tests.coordinator.dashboard.test_actions import FILLED
from tests.coordinator.shell_harness import MemoryCoordinator, write_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A coordinator's home in which nothing runs, with two devices."""
    folder = tmp_path / "home"
    made = CliRunner().invoke(
        command_line.app, ["coordinator", "init", "--trial", "--fleet", "f", "--home", str(folder)]
    )
    assert made.exit_code == 0, made.output
    fleet = fl.Coordinator(folder)
    for name in ("cam-1", "cam-2"):
        fleet.admit(name).wait()
    return folder


@pytest.fixture
def fleet(home: Path) -> Coordinator:
    return fl.Coordinator(home)


def as_json(home: Path, *words: str) -> object:
    shown = CliRunner().invoke(command_line.app, [*words, "--json", "--home", str(home)])
    return json.loads(shown.stdout)


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_a_call_with_its_fields(name: str) -> None:
    action = ACTIONS[name]
    call = getattr(Coordinator, call_name(action))
    extra = {SURE} if action.may_ask else set()
    assert set(inspect.signature(call).parameters) == {
        "self",
        *extra,
        *(field.name for field in action.fields),
    }
    assert action.effect in inspect.getdoc(call)
    assert "fleetledger " in inspect.getdoc(call)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_call_makes_the_command_that_the_form_makes(name: str) -> None:
    action = ACTIONS[name]
    filled = {field.name: "yes" if field.flag else FILLED[field.name] for field in action.fields}
    given = {
        field.name: (
            True
            if field.flag
            else FILLED[field.name].replace(",", " ").split()
            if field.several
            else FILLED[field.name]
        )
        for field in action.fields
    }
    assert command_of(action, given) == action.command(filled)


def test_words_may_have_spaces_and_tags_may_be_a_mapping() -> None:
    opened = command_of(ACTIONS["open-stage"], {"classes": ("granny smith", "pear")})
    assert opened.class_names == ("granny smith", "pear")  # type: ignore[union-attr]
    tagged = command_of(ACTIONS["tag"], {"devices": ["a"], "put": {"site": "east"}})
    assert tagged.put == {"site": "east"}  # type: ignore[union-attr]


def test_its_parameters_read_as_a_function_has_them() -> None:
    shown = {
        name: str(signature_of(ACTIONS[name])) for name in ("open-stage", "retract", "hold-models")
    }
    assert shown == {
        "open-stage": "(self, *classes, sure=False)",
        "retract": "(self, device, reason, *, part=None)",
        "hold-models": "(self)",
    }


def test_commands_are_carried_out_and_said_as_on_the_command_line(fleet: Coordinator) -> None:
    done = fleet.tag(devices=["cam-1"], put={"site": "north"}).wait()
    assert [fleet.ledger[index].kind for index in done.entries] == ["device.tagged"]
    assert len(done.said) == 1
    assert [one.name for one in fleet.devices(tags=["site=north"]).devices] == ["cam-1"]


def test_who_asks_is_in_the_ledger(home: Path) -> None:
    fleet = fl.Coordinator(home, operator="night-shift")
    (index,) = fleet.admit("cam-3").wait().entries
    assert fleet.ledger[index].actor == "operator:night-shift"


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda fleet: fleet.close_stage(), CommandError, "stage: none is open"),
        (lambda fleet: fleet.rollout_pause(7, "why"), CommandError, "rollout: 7 is none"),
        (lambda fleet: fleet.admit("no name"), CommandError, "admit: DeviceId: 'no name' is not"),
        (lambda fleet: fleet.open_stage(), CommandError, "classes: is missing; Classes. Names"),
        (lambda fleet: fleet.push_model("two"), CommandError, "push_model: .*'two'"),
        (lambda fleet: fleet.admit(), TypeError, "missing a required argument: 'device'"),
        (lambda fleet: fleet.admit("a", why="b"), TypeError, "unexpected keyword argument 'why'"),
    ],
)
def test_what_is_refused_is_an_error_with_the_reason(
    fleet: Coordinator,
    ask: Callable[[Coordinator], fl.coordinator.client.SubmittedCommand],
    error: type[Exception],
    text: str,
) -> None:
    before = len(fleet.ledger)
    with pytest.raises(error, match=text):
        ask(fleet).wait()
    assert len(fleet.ledger) == before


def test_what_has_to_be_asked_first_is_an_error_of_its_own(tmp_path: Path) -> None:
    write_home(tmp_path)
    with_backbone = MemoryCoordinator(tmp_path, InMemoryBroker())
    with_backbone.begin("dev-1", classes=("cat",))
    with_backbone.close()
    fleet = fl.Coordinator(tmp_path)
    with pytest.raises(QuestionError, match="dev-1"):
        fleet.open_stage("dog").wait()
    assert fleet.open_stage("dog", sure=True).wait().entries


def test_a_coordinator_that_runs_answers(tmp_path: Path) -> None:
    write_home(tmp_path)
    running = MemoryCoordinator(tmp_path, InMemoryBroker())
    fleet, ended = fl.Coordinator(tmp_path), threading.Event()
    said: list[str] = []

    def lead() -> None:
        said.extend(fleet.admit("dev-9").wait(300.0).said)
        fleet.wait(lambda status: any(one.name == "dev-9" for one in status.devices), timeout=300.0)
        ended.set()

    thread = threading.Thread(target=lead)
    thread.start()
    running.until(ended.is_set)
    thread.join()
    running.close()
    assert said == ["device dev-9 is admitted"]


def test_nobody_who_answers_is_an_error_and_the_command_waits(
    fleet: Coordinator, home: Path
) -> None:
    somebody = WriterLock(lock_path(ledger_path(home)))
    asked = fleet.admit("cam-3")
    with pytest.raises(OperatorTimeoutError, match=r"did not answer within 0 s"):
        asked.wait(timeout=0.0)
    somebody.release()
    assert asked.wait().said == ("device cam-3 is admitted",)


def test_a_wait_that_ends_says_what_the_fleet_needs(fleet: Coordinator) -> None:
    with pytest.raises(WaitTimeoutError, match=r"waited 0 s for the condition; .*fleet f, "):
        fleet.wait(lambda status: bool(status.rollouts), timeout=0.0)


def test_a_folder_without_a_coordinator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"coordinator\.toml"):
        fl.Coordinator(tmp_path)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda fleet: fleet.status(), ("coordinator", "status")),
        (
            lambda fleet: fleet.status(devices=["dev-1"]),
            ("coordinator", "status", "--device", "dev-1"),
        ),
        (lambda fleet: fleet.devices(), ("device", "list")),
        (lambda fleet: fleet.device("dev-1"), ("device", "show", "dev-1")),
        (lambda fleet: fleet.models(), ("model", "list")),
        (lambda fleet: fleet.model(1), ("model", "show", "1")),
        (lambda fleet: fleet.rollouts(), ("rollout", "list")),
        (lambda fleet: fleet.stages(), ("coordinator", "stages")),
        (lambda fleet: fleet.rounds(), ("coordinator", "rounds")),
        (lambda fleet: fleet.classes(), ("class", "list")),
    ],
)
def test_reports_are_what_commands_print(
    tmp_path: Path,
    read: Callable[[Coordinator], fl.runtime.command_report.Report],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    home = a_fleet(tmp_path)
    assert json.loads(read(fl.Coordinator(home)).model_dump_json()) == as_json(home, *words)


def test_the_ledger_is_a_sequence_of_entries(fleet: Coordinator) -> None:
    entries = list(fleet.ledger)
    assert [entry.index for entry in entries] == list(range(len(fleet.ledger)))
    assert fleet.ledger[-1] == entries[-1]
    assert list(fleet.ledger.entries(start=1)) == entries[1:]
    with pytest.raises(IndexError, match="index: 99 is not in the ledger"):
        fleet.ledger[99]


def test_new_entries_are_followed(fleet: Coordinator) -> None:
    following = fleet.ledger.entries(start=len(fleet.ledger), follow=True)
    (index,) = fleet.admit("cam-3").wait().entries
    assert next(following).index == index
    following.close()


def test_the_ledger_is_a_table(fleet: Coordinator) -> None:
    pytest.importorskip("pandas")
    frame = fleet.ledger.to_frame()
    assert list(frame.columns) == ["time", "kind", "actor", "device", "what", "body"]
    assert list(frame.index) == list(range(len(fleet.ledger)))
    assert str(frame["time"].dtype) == "datetime64[ns, UTC]"
    admitted = fleet.ledger.to_frame("device.admitted")
    assert list(admitted["body.device"]) == ["cam-1", "cam-2"]
    assert len(fleet.ledger.to_frame("model.held")) == 0


def test_without_pandas_it_says_what_to_install(
    fleet: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: object, **named: object) -> object:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return imported(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingLibraryError, match=r"to_frame needs pandas: pip install .*frames"):
        fleet.ledger.to_frame()
