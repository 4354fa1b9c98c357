"""What docs/monitoring ships for Prometheus and Grafana fits what is served, by promtool's word."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from benchmarks.speed.fleet_view.dashboard import dashboard as dashboard_process
from tests.coordinator.dashboard.served import a_fleet

DOCS = Path(__file__).parents[4] / "docs"
SHIPPED = DOCS / "monitoring"
NAME = re.compile(r"\bfleetledger_[a-z_]+")
ALERT = re.compile(r"^ *- alert: (\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a dashboard process says to a program with a token, as OpenMetrics and as plain text."""
    home = a_fleet(tmp_path_factory.mktemp("served"))
    with dashboard_process(home) as served:
        address = f"http://{served.host}:{served.port}/metrics"
        return {
            accept: httpx.get(address, headers={**served.headers, "accept": accept}).text
            for accept in ("application/openmetrics-text", "text/plain")
        }


@pytest.fixture(scope="module")
def scraped(scrapes: dict[str, str]) -> dict[str, set[str]]:
    """Names of all samples, with the names of their labels."""
    found: dict[str, set[str]] = {}
    for family in parsed(scrapes):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def parsed(scrapes: dict[str, str]) -> Iterator[Any]:
    """Read OpenMetrics strictly."""
    return text_string_to_metric_families(scrapes["application/openmetrics-text"])  # type: ignore[no-untyped-call, no-any-return]


def promtool(*words: str, text: str | None = None) -> str:
    """Run promtool in docs/monitoring, which must find nothing; skip where it is not there."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: `apt install prometheus`")
    done = subprocess.run(
        [program, *words], cwd=SHIPPED, input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def expressions(found: Any) -> Iterator[str]:
    """Yield every expression of a dashboard."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name in {"expr", "definition"}:
                yield value
            else:
                yield from expressions(value)
    elif isinstance(found, list):
        for value in found:
            yield from expressions(value)


def dashboard() -> dict[str, Any]:
    text = (SHIPPED / "grafana-dashboard.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@pytest.mark.promtool
def test_the_alert_rules_are_rules() -> None:
    assert "15 rules found" in promtool("check", "rules", "--lint=all", "alerts.yml")


@pytest.mark.promtool
def test_the_alerts_fire_when_they_should_and_not_else() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


@pytest.mark.promtool
def test_the_example_of_prometheus_settings_is_valid() -> None:
    promtool("check", "config", "--syntax-only", "prometheus.yml")


@pytest.mark.promtool
def test_a_scrape_is_as_prometheus_wants_it(scrapes: dict[str, str]) -> None:
    assert scrapes["text/plain"].startswith("# HELP fleetledger_")
    assert promtool("check", "metrics", text=scrapes["text/plain"]) == ""


def test_every_alert_has_a_test_of_its_own() -> None:
    tested = (SHIPPED / "alerts_test.yml").read_text("utf-8")
    alerts = ALERT.findall((SHIPPED / "alerts.yml").read_text("utf-8"))
    assert [alert for alert in alerts if alert not in tested] == []


@pytest.mark.parametrize("name", ["alerts.yml", "alerts_test.yml", "grafana-dashboard.json"])
def test_every_metric_that_is_named_is_served(scraped: dict[str, set[str]], name: str) -> None:
    named = set(NAME.findall((SHIPPED / name).read_text("utf-8")))
    assert named
    assert sorted(named - set(scraped)) == []


def test_every_label_that_the_dashboard_selects_or_sums_by_is_served(
    scraped: dict[str, set[str]],
) -> None:
    for expression in expressions(dashboard()):
        labels = set(re.findall(r"(\w+)=~?\"", expression))
        labels |= {
            label.strip()
            for group in re.findall(r"\bby \(([^)]*)\)", expression)
            for label in group.split(",")
        }
        served = set().union(*(scraped[name] for name in NAME.findall(expression)))
        assert labels - served <= {"instance"}, expression


def test_every_panel_asks_the_data_source_that_was_chosen() -> None:
    variables = [one["name"] for one in dashboard()["templating"]["list"]]
    assert variables == ["datasource", "instance"]
    for panel in dashboard()["panels"]:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["description"], panel["title"]
            assert all("$instance" in target["expr"] for target in panel["targets"])


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_metric_is_described_on_the_page(scrapes: dict[str, str]) -> None:
    page = (DOCS / "monitoring.md").read_text("utf-8")
    assert [family.name for family in parsed(scrapes) if f"`{family.name}" not in page] == []
