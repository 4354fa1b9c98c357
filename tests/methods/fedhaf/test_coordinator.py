"""The coordinator side of FedHAF: what begins anew, what travels, when an old model is served."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from fleetledger.methods.fedhaf.coordinator import COORDINATOR
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from tests.methods.fedhaf.making import ANT, BEE, CAT, DOG, answer, asked, assignment, moved, sent
from tests.methods.making import given


def test_plain_averaging_serves_no_old_model():
    of = assignment(preset="fedavg-replay")
    last = asked(of, round_of_stage=2)
    assert not COORDINATOR.combine(of, last, [given(answer(of, last, moved(of, last, 1)))]).extras


def test_everything_begins_anew_with_a_stage_where_that_is_asked():
    of = assignment(reinit=True)
    weights = encode_weights(moved(of, asked(of), 1), (ANT, BEE))
    rows = {"weights": weights, "rows": (ANT, BEE)}
    anew = sent(of, asked(of, ANT, BEE, CAT, **rows))
    fresh = of.network.initial(of.settings.seed, (ANT, BEE, CAT))
    assert all(np.array_equal(anew[name], fresh[name]) for name in fresh)
    trained, _ = decode_weights(weights, of.network)
    later = sent(of, asked(of, ANT, BEE, round_of_stage=2, **rows))
    assert all(np.array_equal(later[name], trained[name]) for name in trained)


def test_an_upload_has_fewer_than_two_million_numbers():
    of = COORDINATOR.assign({}, (2048,))
    module = 2049 * 512 + 513 * 512 + 513 * 256 + 512 * 256
    head = 257 * 128 + 129 * 100
    normalisations = 4 * (512 + 512 + 256 + 128)
    numbers = sum(prod(shape) for shape in of.network.shapes(100).values())
    assert numbers == module + head + normalisations < 2_000_000
    with_shortcut = COORDINATOR.assign({"shortcut": "input"}, (2048,)).network.shapes(100)
    assert sum(map(prod, with_shortcut.values())) > 2_000_000


@pytest.mark.parametrize("adapter", ["projection", "none"])
def test_without_the_module_only_the_head_travels(adapter):
    of = assignment(adapter=adapter)
    assert all(name.startswith("head.") for name in of.network.shapes(2))
    question = asked(of, DOG, CAT)
    made = COORDINATOR.combine(of, question, [given(answer(of, question, sent(of, question)))])
    network, arrays, names = COORDINATOR.network_of(of, made.weights)
    assert names == (DOG, CAT)
    network.check(arrays, 2)
