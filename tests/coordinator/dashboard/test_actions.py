"""Actions of operators: through the inbox, under their name, and of nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fleetledger import command_line
from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.coordinator.core.inputs import OperatorCommand
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.snapshot import LiveSnapshot
from fleetledger.coordinator.program.engine import carry_out_waiting
from fleetledger.coordinator.program.operator import FILE_NAME, OperatorInbox, actor_of
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.log_lines import event_of
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.pages.people import Person, Role
from tests.coordinator.core.harness import Bench
from tests.coordinator.dashboard.metrics.scraping import COORDINATOR, make_home
from tests.coordinator.dashboard.served import ADDRESS, a_fleet, browser, settled
from tests.test_docs import all_commands

HERE = {"origin": ADDRESS}
FILLED = {
    "part": "2/1",
    "device": "dev-1",
    "reason": "its owner asked",
    "installation": "0123456789abcdef",
    "classes": "fig, lychee",
    "version": "2",
    "devices": "dev-1 dev-2",
    "tagged": "site=north, gpu",
    "put": "site=east",
    "removed": "gpu",
    "old": "cat",
    "new": "tom",
    "source": "cat",
    "target": "dog",
    "rollout": "1",
    "group": "2",
    "groups": "1, 50%",
    "soak": "30m",
    "shadow": "off",
    "approve": "operator",
    "deadline": "12h",
    "hours": "22:00-05:00",
    "on_fail": "pause",
    "gates": "latency=1.5",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return a_fleet(tmp_path)


@pytest.fixture
def _coordinator(home: Path) -> Iterator[None]:
    """Carry commands out, as a coordinator that serves does."""
    stop = threading.Event()

    def lead() -> None:
        while not stop.wait(0.02):
            if OperatorInbox(home).waiting():
                carry_out_waiting(home)

    thread = threading.Thread(target=lead)
    thread.start()
    yield
    stop.set()
    thread.join()


def last_entries(home: Path, count: int = 2) -> list[Entry]:
    with ledger_of(home) as ledger:
        return list(ledger.entries(ledger.size - count))


def act(client: TestClient, name: str, **fields: str) -> tuple[int, dict[str, object]]:
    headers = {**HERE, "accept": "application/json"}
    answer = client.post(f"/act/{name}", data=fields, headers=headers)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_every_action_is_a_command_that_the_command_line_has_too(name: str) -> None:
    action = ACTIONS[name]
    values = {field.name: FILLED[field.name] for field in action.fields if not field.flag}
    action.command(values)
    line = action.command_line(values)
    assert [known for known, _ in all_commands() if line.startswith(f"{known} ") or line == known]
    assert "NAME" not in line
    assert command_line.VERBS[line.split()[1]]


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_a_form_tells_the_effect_and_the_command(home: Path, name: str) -> None:
    text = browser(home, role=Role.OPERATOR).get(f"/act/{name}").text
    assert ACTIONS[name].title in text
    assert ACTIONS[name].effect in text
    assert "fleetledger " in text
    assert " disabled" not in text


@pytest.mark.usefixtures("_coordinator")
def test_an_action_is_an_entry_with_who_did_it(home: Path) -> None:
    client = browser(home, role=Role.OPERATOR)
    status, outcome = act(client, "admit", device="dev-9")
    assert (status, outcome["done"], outcome["text"]) == (200, True, "device dev-9 is admitted")
    (entry,) = last_entries(home, 1)
    assert (entry.kind, entry.actor) == ("device.admitted", "operator:ana")
    status, _ = act(client, "rename-class", old="cat", new="tom")
    renamed, done = last_entries(home)
    assert {renamed.actor, done.actor} == {"operator:ana"}
    assert (status, renamed.kind) == (200, "class.renamed")


@pytest.mark.usefixtures("_coordinator")
def test_what_makes_no_sense_is_refused_in_the_coordinators_words(home: Path) -> None:
    client = browser(home, role=Role.OPERATOR)
    status, outcome = act(client, "push-model", version="99")
    assert (status, outcome["done"]) == (409, False)
    assert "99" in str(outcome["text"])
    page = client.post("/act/push-model", data={"version": "99"}, headers=HERE)
    assert page.status_code == 409
    assert "Nothing was done." in page.text
    assert 'value="99"' in page.text


@pytest.mark.usefixtures("_coordinator")
def test_what_reaches_devices_is_told_and_asked_first(home: Path) -> None:
    client = browser(home, role=Role.OPERATOR)
    known = last_entries(home)
    for name in ("push-model", "pin"):
        status, outcome = act(client, name, version="1", devices="dev-1")
        assert (status, outcome["asks"]) == (409, True)
        assert "to model 1 (" in str(outcome["text"])
        assert "1 device" in str(outcome["text"])
    form = client.get("/act/push-model", params={"version": "1"}).text
    assert "<li>to model 1 (" in form
    assert last_entries(home) == known
    assert act(client, "push-model", version="1", devices="dev-1", sure="yes")[0] == 200


@pytest.mark.usefixtures("_coordinator")
def test_a_push_can_be_planned_as_a_rollout_in_its_place(home: Path) -> None:
    client = browser(home, role=Role.OPERATOR)
    for name in ("push-model", "roll-back"):
        page = client.get(f"/act/{name}", params={"version": "1"}).text
        assert 'formmethod="get" formaction="/act/rollout-plan"' in page
    form = client.get("/act/rollout-plan", params={"version": "1", "tagged": "site=north"}).text
    assert 'value="site=north"' in form
    assert "Careful: no device is concerned" in form
    known = last_entries(home)
    status, outcome = act(client, "rollout-plan", version="1", groups="1,100%", soak="5m")
    assert (status, outcome["asks"]) == (409, True)
    assert "then soaks 5 min; group 2 opens at" in str(outcome["text"])
    assert last_entries(home) == known
    assert act(client, "rollout-plan", version="1", soak="soon")[0] == 400
    data = {"version": "1", "groups": "1,100%", "soak": "5m", "sure": "yes"}
    done = client.post("/act/rollout-plan", data=data, headers=HERE)
    assert done.status_code == 200
    assert 'href="/rollouts/1">To rollout 1' in done.text
    (planned,) = (entry for entry in last_entries(home) if entry.kind == "rollout.planned")
    assert planned.body["plan"]["groups"] == [1, 1.0]


@pytest.mark.usefixtures("_coordinator")
def test_a_question_is_asked_before_a_stage_with_strange_names_opens(home: Path) -> None:
    client = browser(home, role=Role.OPERATOR)
    assert act(client, "open-stage", classes="hedgehog", sure="yes")[0] == 200
    status, outcome = act(client, "open-stage", classes="hedgehgo")
    assert (status, outcome["asks"]) == (409, True)
    page = client.post("/act/open-stage", data={"classes": "hedgehgo"}, headers=HERE).text
    assert "Are you sure?" in page
    assert '<input type="hidden" name="sure" value="yes">' in page
    assert act(client, "open-stage", classes="hedgehgo", sure="yes")[0] == 200


def test_a_viewer_is_refused_and_sees_why_before(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = browser(home)
    page = client.get("/act/revoke?device=dev-1").text
    assert " disabled" in page
    assert "came as a viewer" in page
    before = last_entries(home)
    status, outcome = act(client, "revoke", device="dev-1", reason="lost")
    assert (status, outcome["done"]) == (403, False)
    assert [event_of(line).name for line in caplog.records if event_of(line)] == ["action.refused"]
    assert not (home / FILE_NAME).exists()
    assert last_entries(home) == before


def test_without_a_coordinator_nothing_is_left_waiting(tmp_path: Path) -> None:
    stopped = COORDINATOR.model_copy(update={"stopped": True})
    home = settled(make_home(tmp_path, LiveSnapshot(coordinator=stopped)))
    client = browser(home, role=Role.OPERATOR)
    status, outcome = act(client, "admit", device="dev-9")
    assert status == 409
    assert "No coordinator runs" in str(outcome["text"])
    assert " disabled" in client.get("/act/admit").text
    assert not (home / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("admit", {}),
        ("admit", {"device": "not a device"}),
        ("revoke", {"device": "dev-1"}),
        ("revoke", {"device": "dev-1", "reason": "x" * 5000}),
        ("push-model", {"version": "twelve"}),
        ("push-model", {"version": "0"}),
        ("retract", {"device": "dev-1", "reason": "broken", "part": "all"}),
    ],
)
def test_what_is_wrong_or_missing_is_told_before_anything_is_asked(
    home: Path, name: str, fields: dict[str, str]
) -> None:
    status, outcome = act(browser(home, role=Role.OPERATOR), name, **fields)
    assert (status, outcome["done"]) == (400, False)
    assert outcome["text"]
    assert not (home / FILE_NAME).exists()


def test_a_program_acts_by_its_token_alone(home: Path) -> None:
    client = browser(home, role=None)
    secret = client.app.state.doors.tokens.make(Person("robot", Role.VIEWER), 0)  # type: ignore[attr-defined]
    headers = {"authorization": f"Bearer {secret}", "accept": "application/json"}
    assert client.post("/act/close-stage", headers=headers).status_code == 403
    assert client.post("/act/close-stage", headers={"accept": "*/*"}).status_code == 403


def test_an_action_that_is_none_is_told(home: Path) -> None:
    assert browser(home).get("/act/launch").status_code == 404


def test_an_actor_that_is_no_operator_is_refused(tmp_path: Path) -> None:
    inbox = OperatorInbox(tmp_path)
    ticket = inbox.submit(AdmitDevice(device=DeviceId("dev-1")), actor="coordinator")
    assert inbox.waiting() == []
    answer = inbox.answer_to(ticket)
    assert answer is not None
    assert not answer.done
    for name in ("", "a b", "a\n", "x" * 65, "ana:bo"):
        with pytest.raises(FleetledgerError):
            actor_of(name)


def test_only_what_the_operator_decides_bears_the_name() -> None:
    bench = Bench()
    command = AdmitDevice(device=DeviceId("dev-1"))
    decision = bench.core.handle(OperatorCommand("t", command, "operator:ana"), 1)
    assert [entry.actor for entry in decision.entries] == ["operator:ana"]
    decision = bench.core.handle(OperatorCommand("u", command), 1)
    assert [entry.actor for entry in decision.entries] == ["operator"]
