"""Numbers of a fleet for Prometheus: from the ledger, and from what is known just now."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fleetledger.coordinator.dashboard.metrics.fleet import counted_programs
from fleetledger.coordinator.dashboard.metrics.routes import expose, families
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.values import DeviceId
from tests.coordinator.dashboard.metrics.scraping import (
    COORDINATOR,
    FULL,
    LIVE,
    NOW_NS,
    make_home,
    scrape,
)
from tests.coordinator.reports.rollouts.stories import finished, forgetting


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("fleet"))


def test_what_the_ledger_holds_is_counted(home: Path) -> None:
    found = scrape(home, None)
    with ledger_of(home) as ledger:
        assert found["ledger_entries_total"] == ledger.size
    assert found['contributions_total{result="accepted"}'] == 4
    assert found['ledger_contributions{state="held"}'] == 4
    assert found['ledger_contributions{state="retracted"}'] == 0
    assert found['model_version{role="newest"}'] == 2
    assert found['model_devices{state="active",version="2"}'] == 2
    assert found["stages_open"] == 0


def test_models_are_told_by_old_and_new_classes(home: Path) -> None:
    found = scrape(home, None)
    assert found['model_correct_ratio{classes="old",version="2"}'] == 25 / 30
    assert found['model_correct_ratio{classes="new",version="2"}'] == 3 / 4
    assert found['model_correct_ratio{classes="all",version="2"}'] == 28 / 34
    assert found['desired_model_correct_ratio{classes="old"}'] == 25 / 30
    assert 'model_correct_ratio{classes="all",version="1"}' not in found, "nobody runs it"


def test_presence_comes_from_what_the_coordinator_knows_just_now(home: Path) -> None:
    found = scrape(home, LIVE)
    states = {state: found[f'devices{{state="{state}"}}'] for state in ("connected", "away")}
    assert states == {"connected": 1, "away": 1}
    assert found["outbox_messages"] == 3, "of those that are connected"
    assert found["devices_with_problems"] == 1
    assert found['device_temperature_celsius{quantile="1"}'] == 70.5
    assert found['device_free_disk_bytes{quantile="0"}'] == 5_000_000
    assert found["coordinator_up"] == found["coordinator_connected"] == 1
    assert found["ledger_commit_timestamp_seconds"] == pytest.approx(NOW_NS / 1e9 - 3)


def test_for_how_long_a_device_is_hindered_comes_from_its_own_words(home: Path) -> None:
    found = scrape(home, LIVE, per_device=True)
    assert found['device_hindered_seconds{quantile="1"}'] == 90
    assert found['per_device_hindered_seconds{device="dev-1"}'] == 90
    assert 'per_device_hindered_seconds{device="dev-2"}' not in found, "it is away"
    well = LIVE.devices[DeviceId("dev-1")].model_copy(update={"health": DeviceHealth()})
    live = LIVE.model_copy(update={"devices": {well.device: well}})
    assert scrape(home, live)['device_hindered_seconds{quantile="1"}'] == 0


@pytest.mark.parametrize("live", [None, LIVE])
def test_where_no_coordinator_serves_nobody_is_said_to_be_away(home: Path, live: object) -> None:
    found = scrape(home, None if live is None else LIVE, time_ns=NOW_NS + 60 * 10**9)
    assert found["coordinator_up"] == 0
    assert found['devices{state="unknown"}'] == 2
    assert found['devices{state="away"}'] == 0


def test_counts_and_times_of_the_process_are_passed_on(home: Path) -> None:
    found = scrape(home, LIVE)
    assert found['contributions_total{result="accepted"}'] == 4, "the ledger knows better"
    assert found['contributions_total{result="refused"}'] == 2
    assert found['contributions_total{result="later"}'] == 0
    assert found['messages_refused_total{reason="unbelieved"}'] == 4
    assert found['traffic_bytes_total{direction="in",kind="heartbeat"}'] == 900
    buckets = [found[f'receipt_seconds_bucket{{le="{le}"}}'] for le in ("0.01", "0.1", "1.0")]
    assert buckets == [3, 5, 5]
    assert found["receipt_seconds_count"] == found['receipt_seconds_bucket{le="+Inf"}'] == 6
    assert found["receipt_seconds_sum"] == 4.5
    assert found['info{fleet="orchard",method="stsa",version="0.1.0"}'] == 1


def test_devices_are_counted_by_the_program_that_they_run(home: Path) -> None:
    assert scrape(home, LIVE)['devices_by_program{version="0.1.0"}'] == 2


def test_versions_beyond_the_most_frequent_are_counted_together() -> None:
    rows = [(f"{number}.0", 20 - number) for number in range(12)]
    found = counted_programs(rows)
    assert len(found) == 11
    assert found["other",] == (20 - 10) + (20 - 11)
    assert counted_programs([("1.0", 3), ("none", 1)]) == {("1.0",): 3, ("none",): 1}


def test_devices_are_named_only_where_that_is_asked_for(home: Path) -> None:
    assert not [name for name in scrape(home, LIVE) if "dev-1" in name]
    found = scrape(home, LIVE, per_device=True)
    assert found['per_device_connected{device="dev-1"}'] == 1
    assert found['per_device_connected{device="dev-2"}'] == 0
    assert found['per_device_outbox_messages{device="dev-2"}'] == 9
    assert found['per_device_temperature_celsius{device="dev-1"}'] == 70.5
    assert found['per_device_model_version{device="dev-1"}'] == 2
    assert found['per_device_correct_ratio{device="dev-2"}'] == pytest.approx(9 / 12)


def test_every_family_says_what_it_is_and_its_unit_ends_its_name(home: Path) -> None:
    with ledger_of(home) as ledger:
        text = expose(families(ledger, LIVE, NOW_NS, per_device=True)).content.decode()
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        assert family.documentation.endswith(".")
        assert family.name.startswith("fleetledger")
        assert family.name.endswith(family.unit)
        ratio = [sample.value for sample in family.samples if family.unit == "ratio"]
        assert all(0 <= value <= 1 for value in ratio)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "application/openmetrics-text"),
        ("*/*", "application/openmetrics-text"),
        ("text/plain", "text/plain"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics"),
    ],
)
def test_the_older_text_is_given_where_it_alone_is_asked_for(
    home: Path, accept: str, content_type: str
) -> None:
    with ledger_of(home) as ledger:
        found = expose(families(ledger, LIVE, NOW_NS), accept)
    assert found.content_type.startswith(content_type)
    assert found.content.endswith(b"# EOF\n") == content_type.startswith("application")


def test_a_hindered_coordinator_is_told(home: Path) -> None:
    hindered = COORDINATOR.model_copy(update={"problems": (FULL,)})
    found = scrape(home, LIVE.model_copy(update={"coordinator": hindered}))
    assert (found["coordinator_hindered"], found["coordinator_problems"]) == (1, 1)
    assert found["coordinator_hindered_seconds"] == 120
    well = scrape(home, LIVE)
    assert (well["coordinator_hindered"], well["coordinator_hindered_seconds"]) == (0, 0)


def test_a_coordinator_without_its_broker_says_for_how_long(home: Path) -> None:
    away = COORDINATOR.model_copy(
        update={"connected": False, "disconnected_ns": NOW_NS - 30 * 10**9}
    )
    found = scrape(home, LIVE.model_copy(update={"coordinator": away}))
    assert found["coordinator_hindered_seconds"] == 30
    assert found["coordinator_problems"] == 0


def test_an_open_rollout_says_how_far_it_is_and_whether_it_needs_somebody(tmp_path: Path) -> None:
    found = scrape(forgetting().write(tmp_path), None)
    assert found['rollouts_open{state="paused"}'] == 1
    assert found['rollouts_open{state="running"}'] == 0
    assert (found["rollouts_waiting"], found["rollout_version"], found["rollout_group"]) == (
        1,
        12,
        3,
    )
    devices = {state: found[f'rollout_devices{{state="{state}"}}'] for state in ("reached", "ran")}
    assert devices == {"reached": 39, "ran": 37}
    assert found['rollout_devices{state="failed"}'] == 1
    assert found['rollout_devices{state="unreached"}'] == 1


def test_without_a_rollout_nothing_waits(tmp_path: Path) -> None:
    found = scrape(finished().write(tmp_path), None)
    assert found["rollouts_waiting"] == 0
    assert "rollout_version" not in found
