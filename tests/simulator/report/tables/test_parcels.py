"""Tables of bytes by kind and of shared images, against the results that they are made from."""

import pytest

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.report.run_page import run_page
from fleetledger.simulator.report.tables.traffic_by_kind import (
    has_kinds,
    has_shared,
    kind_table,
    shared_table,
)
from tests.simulator.fake_run import Shape, fake_results

KIB = 1024
SENT = {"weights": 800 * KIB, "logits": 60 * KIB, "images": 100 * KIB}
RECEIVED = {"weights": 1000 * KIB, "logits": 40 * KIB, "images": 400 * KIB}


def with_kinds(metrics: SeedMetrics) -> SeedMetrics:
    """Return a seed whose first stage only had weights."""
    first, *others = metrics.stages
    plain = {"sent": {"weights": 800 * KIB}, "received": {"weights": 1000 * KIB}}
    whole = {"sent": SENT, "received": RECEIVED, "shared_images": 40}
    stages = (
        first.model_copy(update=plain),
        *(stage.model_copy(update=whole) for stage in others),
    )
    gave = {"shared_images": 40, "shared_bytes": 100 * KIB, "samples": 400}
    sharer, *silent = metrics.devices
    devices = (sharer.model_copy(update=gave), *silent)
    return metrics.model_copy(update={"stages": stages, "devices": devices})


@pytest.fixture(scope="module")
def results() -> RunResults:
    plain = fake_results(Shape(stages=3, rounds=2, seeds=(1, 2)))
    seeds = {seed: with_kinds(metrics) for seed, metrics in plain.seeds.items()}
    return plain.model_copy(update={"seeds": seeds})


def test_each_kind_has_its_columns_and_weights_alone_stand_beside_all(results: RunResults):
    table = kind_table(results)
    assert table.head == (
        "stage",
        "images up, KiB",
        "images down, KiB",
        "logits up, KiB",
        "logits down, KiB",
        "weights up, KiB",
        "weights down, KiB",
        "all, MiB",
        "weights alone, MiB",
        "all beside weights alone",
        "images shared",
    )
    first, second, _ = table.rows
    assert first == ("1", *["0.00"] * 4, "800.00", "1,000.00", "1.76", "1.76", "1.000", "0")
    assert second[1:7] == ("100.00", "400.00", "60.00", "40.00", "800.00", "1,000.00")
    assert second[7:] == ("2.34", "1.76", "1.333", "40")


def test_who_shared_images_is_named_with_their_number_and_bytes(results: RunResults):
    table = shared_table(results)
    assert table.rows[0] == ("device-1", "40", "100.0\u00a0KiB", "400", "10.00\u00a0%")
    assert table.rows[1][:4] == ("all", "40", "100.0\u00a0KiB", "400")
    assert len(table.rows) == 2


def test_the_page_has_them_only_where_more_than_weights_crossed(results: RunResults):
    page, plain = run_page(results, []), run_page(fake_results(Shape(stages=2)), [])
    assert has_kinds(results)
    assert has_shared(results)
    for title in ("Bytes by kind", "Images that devices shared"):
        assert title in page
        assert title not in plain
