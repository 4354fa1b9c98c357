"""Owners and the operator tell devices apart by tags; the operator's word stands over theirs."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.devices.choice import DeviceChoice, chosen
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, TagDevices
from fleetledger.coordinator.topics.devices.entries import DeviceBorn, DeviceTagged
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.tags import MAX_TAGS, TagName, TagSelector, TagValue
from fleetledger.schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import CAPABLE, FLEET, Bench

ONE, TWO = DeviceId("dev-1"), DeviceId("dev-2")
INSTALLED = BootId("0123456789abcdef")


def said(**values: str) -> dict[TagName, TagValue]:
    return {TagName(name): TagValue(value) for name, value in values.items()}


def born(bench: Bench, device: DeviceId, **tags: str) -> None:
    bench.senders[device] = Sender(FLEET, device, BootId.fresh())
    birth = Birth(installation=INSTALLED, capabilities=CAPABLE, tags=said(**tags))
    bench.message(device, birth)


def fleet() -> Bench:
    bench = Bench()
    for device in (ONE, TWO):
        bench.command(AdmitDevice(device=device))
    born(bench, ONE, site="north", gpu="orin")
    born(bench, TWO, site="north")
    return bench


def tag(bench: Bench, *names: DeviceId, gone: str = "", **put: str) -> str:
    removed = tuple(map(TagName, gone.split()))
    command = TagDevices(devices=names or None, put=said(**put), removed=removed)
    return bench.command(command).text


def tags(bench: Bench) -> dict[str, dict[str, str]]:
    return {name: dict(own) for name, own in bench.core.state.devices.tags.items()}


def test_an_owner_s_tags_come_with_the_birth_and_a_later_birth_takes_their_place() -> None:
    bench = fleet()
    assert tags(bench) == {"dev-1": {"site": "north", "gpu": "orin"}, "dev-2": {"site": "north"}}
    born(bench, ONE, site="south")
    assert tags(bench)["dev-1"] == {"site": "south"}


def test_a_birth_without_tags_is_written_as_ever() -> None:
    bench = fleet()
    bench.born("dev-1")
    (*_, last) = [body for body, *_ in bench.entries if isinstance(body, DeviceBorn)]
    assert "tags" not in last.model_dump(mode="json")


def test_the_operator_s_word_stands_over_the_owner_s_and_over_later_births() -> None:
    bench = fleet()
    assert tag(bench, ONE, TWO, site="east", ring="1") == "tags of 2 devices are changed"
    born(bench, ONE, site="west")
    assert tags(bench)["dev-1"] == {"site": "east", "ring": "1"}


def test_what_is_taken_away_hides_what_the_owner_says() -> None:
    bench = fleet()
    tag(bench, ONE, site="east")
    tag(bench, ONE, gone="site gpu")
    born(bench, ONE, site="north", gpu="orin", dock="2")
    assert tags(bench)["dev-1"] == {"dock": "2"}
    tag(bench, ONE, site="east")
    assert tags(bench)["dev-1"] == {"dock": "2", "site": "east"}


def test_what_the_operator_alone_has_said_is_forgotten() -> None:
    bench = fleet()
    tag(bench, ONE, ring="1")
    tag(bench, ONE, gone="ring")
    born(bench, ONE, ring="2")
    assert tags(bench)["dev-1"] == {"ring": "2"}


def test_only_devices_that_change_are_in_the_entry_and_nothing_is_written_twice() -> None:
    bench = fleet()
    tag(bench, ONE, ring="1")
    tag(bench, ONE, TWO, ring="1")
    size = len(bench.entries)
    assert "nothing changes" in tag(bench, ONE, TWO, ring="1")
    assert len(bench.entries) == size
    bodies = [body for body, *_ in bench.entries if isinstance(body, DeviceTagged)]
    assert [body.devices for body in bodies] == [(ONE,), (TWO,)]


@pytest.mark.parametrize(
    ("names", "gone", "put", "told"),
    [
        ((), "", {"ring": "1"}, "none is named"),
        ((ONE,), "", {}, "none is given"),
        ((ONE,), "ring", {}, "none of the devices has 'ring'"),
        ((ONE,), "site", {"site": "east"}, "say one"),
        ((DeviceId("dev-9"),), "", {"ring": "1"}, "not admitted"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    names: tuple[DeviceId, ...], gone: str, put: dict[str, str], told: str
) -> None:
    bench = fleet()
    size = len(bench.entries)
    assert told in tag(bench, *names, gone=gone, **put)
    assert len(bench.entries) == size


def test_a_device_has_no_more_tags_than_it_may() -> None:
    bench = fleet()
    for number in range(MAX_TAGS):
        tag(bench, ONE, **{f"t{number}": "1"})
    assert "more than 32" in tag(bench, ONE, more="1")
    tag(bench, ONE, gone="t0")
    assert tag(bench, ONE, more="1") == "tags of 1 device are changed"


def test_a_restart_knows_the_same_tags() -> None:
    bench = fleet()
    tag(bench, ONE, gone="gpu", ring="1")
    before = tags(bench)
    bench.restart()
    assert tags(bench) == before


@pytest.mark.parametrize(
    ("names", "selectors", "found"),
    [
        (None, "", ["dev-1", "dev-2"]),
        (None, "site=north", ["dev-1", "dev-2"]),
        (None, "site gpu", ["dev-1"]),
        (["dev-2", "dev-1", "dev-2"], "", ["dev-2", "dev-1"]),
        (["dev-2"], "site", ["dev-2"]),
    ],
)
def test_devices_are_chosen_by_names_and_tags_of_which_all_must_fit(
    names: list[str] | None, selectors: str, found: list[str]
) -> None:
    choice = DeviceChoice.read(names, selectors.split())
    assert list(chosen(choice, fleet().core.state.devices.tags)) == found


@pytest.mark.parametrize(
    ("names", "selector", "told"),
    [
        (None, "site=south", "no device has site=south"),
        (["dev-2"], "gpu", "no device of dev-2 has gpu"),
        (["dev-7"], "gpu", "'dev-7' is not admitted"),
    ],
)
def test_a_choice_that_nobody_fits_is_an_error_in_words(
    names: list[str] | None, selector: str, told: str
) -> None:
    with pytest.raises(CommandError, match=told):
        chosen(DeviceChoice.read(names, [selector]), fleet().core.state.devices.tags)


@pytest.mark.parametrize(
    "text", ["", "=a", "Site=a", "site=", "site=a b", "a" * 41, "s=" + "x" * 101]
)
def test_a_tag_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        TagSelector.parse(text)
