"""Tables of looks and of the proxy, against the results that they are made from."""

import pytest

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.run_page import run_page
from fleetledger.simulator.report.tables.novelty import (
    has_novelty_checks,
    has_proxy,
    noticing_table,
    proxy_table,
)
from tests.simulator.fake_run import Shape, fake_results


@pytest.fixture(scope="module")
def results() -> RunResults:
    return fake_results(Shape(stages=3, rounds=4, looks=True, seeds=(1, 2)))


def test_what_devices_noticed_is_added_up_over_seeds(results: RunResults):
    table = noticing_table(results)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["device-1"] == ("4", "4", "0", "0", "0")
    assert rows["device-2"] == ("4", "0", "4", "0", "0")
    assert rows["device-3"] == ("4", "0", "0", "4", "0")
    assert rows["device-4"] == ("4", "4", "0", "0", "4")
    assert rows["all"] == tuple(
        str(sum(int(rows[device][column]) for device in rows if device != "all"))
        for column in range(5)
    )


def test_gradients_stand_beside_the_weights_of_their_stage_and_of_all(results: RunResults):
    table = proxy_table(results)
    share = {row[0]: row[3] for row in table.rows}
    assert share == {"1": "0.300", "2": "0.600", "3": "0.900", "all": "0.600"}
    assert [row[4] for row in table.rows] == ["4", "4", "4", "12"]
    assert "0.364 %" in table.note


def test_the_page_has_them_where_devices_look_and_there_is_a_proxy(results: RunResults):
    page, plain = run_page(results, []), run_page(fake_results(Shape(stages=2)), [])
    for title in ("What the devices noticed by looking", "Bytes of the proxy"):
        assert title in page
        assert title not in plain


def test_a_resumed_run_has_no_bytes_of_the_proxy(results: RunResults):
    first = results.first
    stages = (first.stages[0].model_copy(update={"proxy": None}), *first.stages[1:])
    seeds = {1: first.model_copy(update={"stages": stages})}
    resumed = results.model_copy(update={"seeds": seeds})
    assert has_novelty_checks(resumed)
    assert not has_proxy(resumed)
