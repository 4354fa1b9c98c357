"""What topics promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.topics import DOWN_LEAVES, UP_LEAVES, DeviceTopic, FleetTopics, Topic
from fleetledger.schemas.values import DeviceId, FleetId

HARBOUR = FleetTopics(FleetId("harbour"))
CRANE = DeviceId("crane-7")
DEVICES = st.from_regex(DeviceId.pattern, fullmatch=True).map(DeviceId)
FLEETS = st.from_regex(FleetId.pattern, fullmatch=True).map(FleetId)


@given(FLEETS, DEVICES)
def test_a_topic_that_is_built_reads_back(fleet: FleetId, device: DeviceId) -> None:
    topics = FleetTopics(fleet)
    for up in UP_LEAVES:
        assert topics.parse(topics.up(device, up)) == DeviceTopic("up", device, up)  # type: ignore[arg-type]
    for down in DOWN_LEAVES:
        assert topics.parse(topics.down(device, down)) == DeviceTopic("down", device, down)  # type: ignore[arg-type]


def test_topics_read_as_written_in_the_protocol() -> None:
    assert HARBOUR.up(CRANE, "msg") == "fleetledger/1/harbour/up/crane-7/msg"
    assert HARBOUR.down(CRANE, "rcpt") == "fleetledger/1/harbour/down/crane-7/rcpt"
    assert HARBOUR.coordinator_state == "fleetledger/1/harbour/all/state"


def test_what_is_said_to_a_proxy_is_on_a_branch_of_its_own() -> None:
    proxy = FleetTopics(HARBOUR.fleet, "proxy")
    assert proxy.up(CRANE, "msg") == "fleetledger/1/harbour/proxy/up/crane-7/msg"
    assert proxy.from_every_device("msg") == ("fleetledger/1/harbour/proxy/up/+/msg",)
    assert proxy.parse(proxy.down(CRANE, "rcpt")) == DeviceTopic("down", CRANE, "rcpt")
    for one, other in ((proxy, HARBOUR), (HARBOUR, proxy)):
        with pytest.raises(InvalidValueError, match="expected fleetledger/1/harbour"):
            one.parse(other.up(CRANE, "msg"))


def test_filters_for_every_device_have_a_wildcard_where_the_device_stands() -> None:
    assert HARBOUR.from_every_device("state", "msg") == (
        "fleetledger/1/harbour/up/+/state",
        "fleetledger/1/harbour/up/+/msg",
    )


def test_filters_of_one_device_name_it() -> None:
    assert HARBOUR.to_device(CRANE, "ctl") == ("fleetledger/1/harbour/down/crane-7/ctl",)


@pytest.mark.parametrize(
    ("topic", "way_out"),
    [
        ("fleetledger/1/harbour/up/crane-7/rcpt", "after fleetledger/1/harbour comes up/<device>"),
        ("fleetledger/1/harbour/down/crane-7/msg", "rcpt"),
        ("fleetledger/1/harbour/sideways/crane-7/msg", "down/<device>"),
        ("fleetledger/1/harbour/up/crane 7/msg", "DeviceId: 'crane 7'"),
        ("fleetledger/1/harbour/up//msg", "DeviceId: ''"),
        ("fleetledger/1/harbour/up/crane-7/msg/more", "expected fleetledger/1/harbour/up|down/"),
        ("fleetledger/1/harbour/up/crane-7", "expected fleetledger/1/harbour"),
        ("fleetledger/2/harbour/up/crane-7/msg", "expected fleetledger/1/harbour"),
        ("fleetledger/1/airport/up/crane-7/msg", "expected fleetledger/1/harbour"),
        ("fleetledger/1/harbour/all/state", "expected"),
        ("", "expected"),
    ],
)
def test_a_foreign_topic_is_refused_with_what_was_expected(topic: str, way_out: str) -> None:
    with pytest.raises(InvalidValueError) as refusal:
        HARBOUR.parse(topic)
    assert way_out in str(refusal.value)


@pytest.mark.parametrize("text", ["", "/", "a//b", "/a", "a/", "a/+", "#", "a\x00b", "x" * 201])
def test_nothing_can_be_published_on_a_filter_or_an_empty_level(text: str) -> None:
    with pytest.raises(InvalidValueError, match="Topic: "):
        Topic(text)


def test_the_longest_names_still_make_a_topic() -> None:
    longest = FleetTopics(FleetId("f" * 63)).down(DeviceId("d" * 64), "assignment")
    assert len(longest) <= 200
