"""Test images on devices: all of the planned classes, each on one device, as many on each."""

import numpy as np

from fleetledger.simulator.engines.mqtt.deliveries import shares_of_test
from tests.simulator.plan.making import make_split, plan

# Images to learn from stand for those to be asked about.


def test_every_test_image_of_a_planned_class_is_on_one_device():
    split = make_split([30, 30, 30, 30])
    made = plan(split, stages={"classes": 3, "count": 3, "order": "as-is"}, devices={"count": 4})
    shares = shares_of_test(made, split.train)
    assert set(shares) == set(made.devices)
    dealt = np.sort(np.concatenate(list(shares.values())))
    assert np.array_equal(dealt, np.flatnonzero(np.isin(split.train.labels, (0, 1, 2))))
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1


def test_the_seed_decides_which():
    split = make_split([30, 30])
    one, two = (plan(split, seed, stages={"count": 2}) for seed in (1, 2))
    again = shares_of_test(one, split.train)
    assert all(np.array_equal(s, again[n]) for n, s in shares_of_test(one, split.train).items())
    assert any(not np.array_equal(s, again[n]) for n, s in shares_of_test(two, split.train).items())
