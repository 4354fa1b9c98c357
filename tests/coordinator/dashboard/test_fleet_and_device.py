"""The pages of the fleet and of a device: what they answer, with real entries behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetledger.coordinator.dashboard.pages.fleet import MOST_ROWS
from fleetledger.coordinator.dashboard.parts.device_map import MOST_GROUPS
from fleetledger.coordinator.dashboard.parts.need_actions import with_doing
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.live.snapshot import DeviceNow, LiveSnapshot
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.reports.answers import Need
from fleetledger.coordinator.topics.devices.commands import TagDevices
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.schemas.health import DeviceHealth, HealthProblem
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.pages.people import Role
from tests.coordinator.core.harness import Bench, contribution
from tests.coordinator.dashboard.asked import home_of
from tests.coordinator.dashboard.metrics.scraping import COORDINATOR, LIVE, NOW_NS, make_home
from tests.coordinator.dashboard.served import a_fleet, browser, settled
from tests.coordinator.reports.test_fleet import evaluation, two_stages
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.contributions.test_privacy_budget import bench as noisy_bench

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_fleet(tmp_path_factory.mktemp("home"))


def large(home: Path, count: int) -> Path:
    """Write a fleet of so many devices, all of which are there."""
    bench = Bench()
    names = [f"{place}-{number:03}" for place in ("east", "west") for number in range(count // 2)]
    bench.begin(*names)
    bench.give(names[0], contribution("a", samples={"cat": 3, "dog": 2}))
    bench.command(CloseStage())
    write(home, bench)
    there = {
        DeviceId(name): DeviceNow(device=DeviceId(name), online=True, heard_ns=NOW_NS)
        for name in names
    }
    LiveFile(home).write(LiveSnapshot(coordinator=COORDINATOR, devices=there))
    return settled(home)


def test_the_title_says_whether_the_fleet_is_well_and_needs_somebody(home: Path) -> None:
    told = browser(home).get("/fleet.json").json()
    assert re.fullmatch(r"One of 2 devices is away\. \w+ things? needs? you\.", told["title"])
    assert len(told["needs"]) == len(told["fleet"]["needs"]) > 0


def test_a_device_page_says_how_warm_it_was_when_a_model_was_measured(tmp_path: Path) -> None:
    bench = two_stages()
    told = evaluation(1, cat=(3, 4))
    warm = told.model_copy(update={"power_mode": HOSTILE, "celsius": 61.5, "throttled": 2})
    bench.message("dev-1", warm)
    write(tmp_path, bench)
    LiveFile(tmp_path).write(LIVE)
    text = browser(settled(tmp_path)).get("/devices/dev-1").text
    assert "CPUExecutionProvider, 0.1 s, power mode &lt;img" in text
    assert "62 °C, slowed down 2 times" in text
    assert HOSTILE not in text


def test_a_device_page_says_what_privacy_it_has_spent(tmp_path: Path) -> None:
    bench = noisy_bench()
    bench.give("a", contribution("x"))
    page = browser(home_of(tmp_path, bench))
    assert "epsilon 3.00 of the budget is spent" in page.get("/devices/a").text
    assert "epsilon 0.00 of the budget is spent" in page.get("/devices/b").text


def test_without_a_coordinator_nobody_is_said_to_be_away(tmp_path: Path) -> None:
    ended = LIVE.model_copy(
        update={"coordinator": COORDINATOR.model_copy(update={"stopped": True})}
    )
    client = browser(settled(make_home(tmp_path, ended)))
    told = client.get("/fleet.json").json()
    assert told["title"].startswith("The coordinator was stopped.")
    assert {one["device"]["state"] for one in told["rows"]} == {"unknown"}
    assert "so nobody knows how dev-1 is" in client.get("/devices/dev-1").text


def test_a_calm_fleet_needs_nobody(tmp_path: Path) -> None:
    told = browser(large(tmp_path, 4)).get("/fleet.json").json()
    assert told["title"] == "The fleet works. Nothing needs you."
    assert told["map"]["groups"][0]["name"] == "east"


def test_the_list_is_filtered_without_a_script(home: Path) -> None:
    client = browser(home)

    def names(text: str) -> list[str]:
        rows = client.get("/fleet.json", params={"filter": text}).json()["rows"]
        return [row["device"]["name"] for row in rows]

    assert names("state:online") == ["dev-1"]
    assert names("state:away dev") == ["dev-2"]
    assert names("DEV-2") == ["dev-2"]
    assert sorted(names("problem")) == ["dev-1", "dev-2"]
    assert names("model:99") == []
    assert "No device fits this filter." in client.get("/?filter=model:99").text
    assert "No device fits this filter." in client.get("/?filter=program:0.0.9").text
    assert "dev-1" in client.get("/?filter=program:0.1.0").text
    assert 'value="state:away"' in client.get("/?filter=state:away").text


def test_a_long_list_is_shown_in_part_and_whole_where_that_is_asked(tmp_path: Path) -> None:
    client = browser(large(tmp_path, 2 * MOST_ROWS))
    assert len(client.get("/fleet.json").json()["rows"]) == MOST_ROWS
    assert len(client.get("/fleet.json?all=yes").json()["rows"]) == 2 * MOST_ROWS
    assert "all=yes" in client.get("/").text


def test_the_map_says_model_or_accuracy_in_each_cell(home: Path) -> None:
    client = browser(home)
    by_model, by_accuracy = (
        client.get("/fleet.json", params={"map": by}).json()["map"] for by in ("model", "accuracy")
    )
    cells = [cell for group in by_accuracy["groups"] for cell in group["cells"]]
    assert {cell["device"]: cell["text"] for cell in cells} == {"dev-1": "86", "dev-2": "75"}
    assert by_model["by"] == "model"
    assert len(by_model["groups"]) <= MOST_GROUPS


def test_the_map_is_grouped_by_a_tag_that_the_address_has(tmp_path: Path) -> None:
    home = large(tmp_path, 6)
    for value, names in (("b2", ("east-000", "east-001")), ("a", ("west-000",)), ("b10", ())):
        devices = tuple(map(DeviceId, names)) or (DeviceId("west-001"),)
        command = TagDevices(devices=devices, put={TagName("site"): TagValue(value)})
        carried_out(home, command)
    client = browser(home)
    told = client.get("/fleet.json?group=site&map=accuracy").json()["map"]
    assert (told["group"], told["tags"]) == ("site", ["site"])
    groups = [(one["name"], len(one["cells"]), one["filter"]) for one in told["groups"]]
    assert groups == [
        ("a", 1, "tag:site=a"),
        ("b10", 1, "tag:site=b10"),
        ("b2", 2, "tag:site=b2"),
        ("no site", 2, ""),
    ]
    text = client.get("/?group=site&map=accuracy").text
    assert "2 of 2 there" in text
    assert "filter=tag%3Asite%3Db2&amp;map=accuracy&amp;group=site#devices" in text
    assert 'href="/?map=model&amp;group=site#map"' in text
    assert '<input type="hidden" name="group" value="site">' in text
    other = client.get("/fleet.json?group=ring").json()["map"]
    assert (other["group"], [one["name"] for one in other["groups"]]) == ("", ["east", "west"])


def test_old_and_new_classes_stand_in_a_plot_and_in_a_table(home: Path) -> None:
    client = browser(home)
    stages = client.get("/fleet.json").json()["stages"]
    assert [(one["stage"], one["version"]) for one in stages] == [(1, 1), (2, 2)]
    assert stages[0]["old"] is None
    assert stages[1]["old"]["right"] == {"correct": 25, "total": 30}
    assert stages[1]["new"]["right"] == {"correct": 3, "total": 4}
    text = client.get("/").text
    assert ">old 83.3</text>" in text
    assert ">new 75.0</text>" in text
    assert "83.3 % <small>25 of 30</small>" in text


def test_a_device_is_told_class_by_class_against_the_version_before(home: Path) -> None:
    client = browser(home)
    told = client.get("/devices/dev-1.json").json()["accuracy"]
    assert (told["version"], told["before"]) == (2, 1)
    assert {one["name"]: (one["right"]["correct"], one["is_new"]) for one in told["classes"]} == {
        "cat": (8, False),
        "dog": (10, False),
        "eel": (1, True),
    }
    assert client.get("/devices/dev-2.json").json()["accuracy"]["before"] is None
    text = client.get("/devices/dev-1").text
    assert "Old classes: 18 of 20, 90.0 %" in text
    assert "−10.0" in text


def test_a_device_has_its_timeline_out_of_the_ledger(home: Path) -> None:
    told = browser(home).get("/devices/dev-1.json").json()["happened"]
    indices = [one["index"] for one in told]
    assert indices == sorted(indices, reverse=True)
    assert indices[-1] == 0  # it was admitted by the operator, in an entry about it
    assert any("connected" in one["sentence"] for one in told)
    assert not any("dev-2" in one["sentence"] for one in told)


@pytest.mark.parametrize("path", ["/", "/devices/dev-1"])
def test_a_viewer_sees_buttons_that_do_nothing_and_why(home: Path, path: str) -> None:
    viewer, operator = (browser(home, role=role).get(path).text for role in Role)
    assert 'aria-disabled="true"' not in operator
    if path != "/":
        assert 'aria-disabled="true"' in viewer
        assert "You came as a viewer" in viewer


def test_what_hinders_a_device_has_its_date_and_a_filter(tmp_path: Path) -> None:
    name = DeviceId("dev-1")
    problem = HealthProblem(about="broker", text="it takes no block", seconds=180)
    there = DeviceNow(
        device=name,
        online=True,
        heard_ns=NOW_NS,
        health=DeviceHealth(problems=(problem,)),
        health_ns=NOW_NS,
    )
    live = LiveSnapshot(coordinator=COORDINATOR, devices={name: there})
    client = browser(settled(make_home(tmp_path, live)))
    page = client.get("/devices/dev-1").text
    assert "broker, 3 min ago" in page
    assert "Broker: it takes no block (for 3 min)." in page
    found = client.get("/fleet.json?filter=hindered").json()["rows"]
    assert [row["device"]["name"] for row in found] == [name]


def test_what_devices_say_is_never_markup(tmp_path: Path) -> None:
    problem = HealthProblem(about="disk", text=HOSTILE)
    name = DeviceId("dev-1")
    there = DeviceNow(
        device=name,
        online=True,
        heard_ns=NOW_NS,
        health=DeviceHealth(problems=(problem,), power_mode=HOSTILE),
        health_ns=NOW_NS,
    )
    live = LiveSnapshot(coordinator=COORDINATOR, devices={name: there})
    client = browser(settled(make_home(tmp_path, live)))
    for path in ("/", "/devices/dev-1"):
        text = client.get(path).text
        assert "<img" not in text
        assert "&lt;img src=x" in text
        assert not {"\x1b", "\u202e"} & set(text)


@pytest.mark.parametrize(
    ("command", "url"),
    [
        ("fleetledger coordinator resume-rounds", "/act/resume-rounds"),
        ("fleetledger coordinator settle d --installation ID", "/act/settle?device=d"),
        ("fleetledger coordinator open-stage 'a b'", "/act/open-stage?classes=a+b"),
        ("fleetledger model push 3", "/act/push-model?version=3"),
    ],
)
def test_a_need_has_the_action_of_its_command_beside_it(command: str, url: str) -> None:
    here = with_doing(Need(key="?", urgency="now", sentence="Do it.", command=command))
    assert here.doing is not None
    assert (here.doing.url, here.doing.acts, here.command) == (url, True, None)


@pytest.mark.parametrize(
    ("key", "command", "devices", "text", "url"),
    [
        ("rollout:7:paused:3", "rollout show 7", "", "Decide", "/rollouts/7#doing"),
        (
            "site:site=ash",
            "device list --tag site=ash",
            "a b c",
            "See the three",
            "site%3Dash",
        ),
        ("outage:1", "device list", "a b c", "See the three", "state%3Aaway"),
        ("outage:1", "device list --tag site=ash", "a b c", "See the three", "ash+state%3Aaway"),
        ("program:1.0", "device list", "a", "See the one", "program%3A1.0"),
    ],
)
def test_a_need_leads_to_the_page_where_one_decides_or_looks(
    key: str, command: str, devices: str, text: str, url: str
) -> None:
    named, line = tuple(devices.split()), f"fleetledger {command}"
    here = with_doing(Need(key=key, urgency="now", sentence="?", devices=named, command=line))
    assert here.doing is not None
    assert (here.doing.text, here.doing.acts, here.command) == (text, False, None)
    assert url in here.doing.url


def test_what_is_to_be_pushed_can_go_as_a_rollout() -> None:
    command = "fleetledger model push 3"
    here = with_doing(Need(key="held:3", urgency="today", sentence="?", command=command))
    assert here.instead is not None
    assert (here.instead.text, here.instead.acts) == ("As a rollout…", True)
    assert here.instead.url == "/act/rollout-plan?version=3"


def test_what_no_page_does_is_told_as_a_command() -> None:
    need = Need(key="?", urgency="now", sentence="Serve.", command="fleetledger coordinator serve")
    assert with_doing(need).command == need.command
    assert with_doing(need).doing is None


def test_who_was_away_is_on_both_pages_and_in_the_history(tmp_path: Path) -> None:
    home = settled(make_home(tmp_path, live=None))
    hour, name = 3600 * 10**9, DeviceId("dev-1")
    file = LiveFile(home)
    for hours, online in ((0, True), (5, False), (7, True), (9, False), (10, False)):
        at = NOW_NS - 10 * hour + hours * hour
        file.write(
            LiveSnapshot(
                coordinator=COORDINATOR.model_copy(update={"written_ns": at}),
                devices={name: DeviceNow(device=name, online=online)},
            )
        )
    client = browser(home)
    presence = client.get("/devices/dev-1.json").json()["presence"]
    assert [(one["state"], (one["last_ns"] - one["first_ns"]) / hour) for one in presence] == [
        ("here", 5),
        ("away", 2),
        ("here", 2),
        ("away", 1),
    ]
    text = client.get("/devices/dev-1").text
    assert "There for 70.0 % of the last 10 h, away twice, at most for 2 h." in text
    assert "Went away, and came back after 2 h." in text
    assert "Went away, and has not come back." in text
    here = client.get("/fleet.json").json()["presence"]["here"]
    assert (here[100], here[150], here[180], here[-1]) == (1, 0, 0, 0)
    assert "Fewest in the last 10 h: 0 of 2 devices, at 03:00." in client.get("/").text
    assert client.get("/devices/dev-2.json").json()["presence"] == []


def test_devices_are_listed_by_tags_and_acted_on_together(tmp_path: Path) -> None:
    home = a_fleet(tmp_path)
    tags = {TagName("site"): TagValue("North")}
    for command in (
        TagDevices(devices=(DeviceId("dev-2"),), put=tags),
        TagDevices(devices=(DeviceId("dev-1"),), put={TagName("ring"): TagValue("1")}),
    ):
        carried_out(home, command)
    client = browser(home, role=Role.OPERATOR)
    for text, names in (("tag:site=North", ["dev-2"]), ("tag:ring", ["dev-1"]), ("tag:no", [])):
        shown = client.get("/fleet.json", params={"filter": text}).json()
        assert [row["device"]["name"] for row in shown["rows"]] == names
        assert shown["tags"] == text.removeprefix("tag:")
    page = client.get("/", params={"filter": "tag:site=North"}).text
    assert "/act/push-model?tagged=site%3DNorth" in page
    assert "site=North" in client.get("/devices/dev-2").text
    form = client.get("/act/pin", params={"tagged": "site=North", "version": "1"}).text
    assert "fleetledger device pin 1 --tag site=North" in form
