"""How often the model was asked and how long it took is counted by samples."""

from fleetledger.device_agent.home.health.inferences import BOUNDS, InferenceMeter


def test_a_batch_counts_as_its_samples():
    meter = InferenceMeter()
    assert meter.now().p95_seconds is None
    meter.note(0, 1.0)
    meter.note(8, 0.08)
    meter.note(2, 60.0)
    now = meter.now()
    assert (now.count, now.seconds) == (10, 60.08)
    assert now.buckets[BOUNDS.index(0.01)] == 8
    assert now.buckets[-1] == 2
    assert now.p95_seconds == 30.0


def test_the_95th_percentile_is_that_of_the_newest():
    meter = InferenceMeter()
    meter.note(1000, 1000.0)
    assert meter.now().p95_seconds == 1.0
    meter.note(1000, 1.0)
    assert meter.now().p95_seconds == 0.001
