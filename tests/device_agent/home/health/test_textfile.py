"""What node_exporter reads is what a parser of Prometheus takes, and never half of it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fleetledger.device_agent.home.health.inferences import InferenceMeter
from fleetledger.device_agent.home.health.reader import TextfileWriter
from fleetledger.device_agent.home.health.textfile import AgentNumbers, exposed, write_textfile
from fleetledger.schemas.health import DeviceHealth, ThermalZone

parser = pytest.importorskip("prometheus_client.parser")

METER = InferenceMeter()
METER.note(3, 0.03)
METER.note(1, 60.0)
HEALTH = DeviceHealth(
    provider='odd "provider"',
    temperatures=(ThermalZone(zone="cpu\\0", celsius=51.5), ThermalZone(zone="gpu", celsius=48)),
    resident_bytes=123456,
    throttled=2,
    power_mode="15W",
)
NUMBERS = AgentNumbers(HEALTH, METER.now(), outbox=4, version=7)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (
            sample.name.removeprefix("fleetledger_agent_"),
            tuple(sample.labels.values()),
        ): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_number_is_read_back() -> None:
    found = samples(exposed(NUMBERS))
    buckets = {labels[0]: value for (name, labels), value in found.items() if "bucket" in name}
    assert (buckets["0.005"], buckets["0.01"], buckets["10.0"], buckets["+Inf"]) == (0, 3, 3, 4)
    plain = {key: value for key, value in found.items() if "bucket" not in key[0]}
    assert plain == {
        ("inferences_total", ()): 4,
        ("inference_seconds_sum", ()): 60.03,
        ("inference_seconds_count", ()): 4,
        ("resident_bytes", ()): 123456,
        ("outbox_messages", ()): 4,
        ("model_info", ("7", 'odd "provider"')): 1,
        ("power_mode_info", ("15W",)): 1,
        ("temperature_celsius", ("cpu\\0",)): 51.5,
        ("temperature_celsius", ("gpu",)): 48,
        ("throttled_total", ()): 2,
    }


def test_what_is_not_known_is_left_out() -> None:
    found = samples(exposed(AgentNumbers(DeviceHealth(), METER.now(), outbox=0, version=None)))
    assert {name for name, _ in found if not name.startswith("inference")} == {"outbox_messages"}


def test_the_file_is_replaced_and_everybody_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "fleetledger.prom"
    path.write_text("old")
    write_textfile(path, NUMBERS)
    assert path.read_text() == exposed(NUMBERS)
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.glob("*.prom")) == [path] == list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    writer = TextfileWriter(tmp_path / "later" / "fleetledger.prom", 60)
    assert writer.is_due(0)
    for now in (0, 60):
        writer.write(NUMBERS, now)
    assert not writer.is_due(100)
    assert len(caplog.messages) == 1
    (tmp_path / "later").mkdir()
    writer.write(NUMBERS, 120)
    assert "written again" in caplog.messages[-1]
