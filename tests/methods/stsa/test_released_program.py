"""The settings that reproduce the published program, against a slow float64 account of it.

What the program does: h = relu(x R) with R from N(0, 1); every client shuffles the data of the
stage and cuts them into equal chunks, the last taking the rest, each a client of its own; the
estimate counts all of these for every class and sets negative coefficients to 0; Gram matrix and
class sums are added over stages; logits are sigma <h/|h|, w/|w|>.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.grouping import _shuffled
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.group_sums import GroupSums
from fleetledger.methods.stsa.messages import LocalStatistics, StsaAssignment, encode_statistics
from fleetledger.schemas.values import ClassName
from tests.methods.stsa.fleet import WIDTH, assignment

CLIENTS, DUMMIES, STAGES, CLASSES = 3, 4, 3, 3
PARTS = 2
RIDGE, SIGMA = 1e4, 10.0
RELEASED: dict[str, Any] = {
    "map": "gaussian",
    "map_width": 60,
    "forms": ["exact", "estimated"],
    "ridge": RIDGE,
    "head": "cosine",
    "logit_scale": SIGMA,
    "groups": DUMMIES,
    "split": "shuffled",
    "group_minimum": 1,
    "single_holder": "zero",
    "count_all_clients": True,
}
NAMES = [ClassName(f"class {index:02d}") for index in range(STAGES * CLASSES)]
Data = dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]


def data() -> Data:
    """Backbone features and classes per (stage, client): skewed, one class with few samples."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(len(NAMES), WIDTH))
    drawn = {}
    for stage in range(STAGES):
        for client in range(CLIENTS):
            shares = rng.dirichlet([0.5] * CLASSES)
            labels = stage * CLASSES + rng.choice(CLASSES, 30 + client, p=shares)
            if client == 0:
                labels[:5] = stage * CLASSES + 2
            if client == 2:
                labels = labels[:5]  # its parts of three and two have fewer than there are chunks
            drawn[stage, client] = (
                centres[labels] + rng.normal(size=(len(labels), WIDTH)),
                labels,
            )
    return drawn


def cut(drawn: Data, stage: int, client: int) -> np.ndarray:
    """The chunk of each sample: the device's shuffled order in equal chunks, the rest in the last.

    Of parts that a device makes of its data, the chunks of the same place are one.
    """
    chunks = []
    for part in np.array_split(drawn[stage, client][1], PARTS):
        size, chunk = len(part) // DUMMIES, np.empty(len(part), np.int64)
        order = _shuffled(len(part), b"%d/%d" % (stage, client))
        for place, sample in enumerate(order):
            chunk[sample] = min(place // size, DUMMIES - 1) if size else DUMMIES - 1
        chunks.append(chunk)
    return np.concatenate(chunks)


def reference(
    drawn: Data, R: np.ndarray, form: str, devices: int = CLIENTS
) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix and class sums after all stages, one loop at a time."""
    columns = R.shape[1]
    gram, sums = np.zeros((columns, columns)), np.zeros((columns, len(NAMES)))
    for stage in range(STAGES):
        clients = []
        for client in range(devices):
            x, y = drawn.get((stage, client), (np.empty((0, WIDTH)), np.empty(0, np.int64)))
            H = np.maximum(x.astype(np.float32) @ R, 0).astype(np.float64)
            for row, label in zip(H, y, strict=True):
                sums[:, label] += row
            if form == "exact":
                gram += H.T @ H
            chunk = cut(drawn, stage, client) if len(y) else np.empty(0, np.int64)
            clients += [(H[chunk == dummy], y[chunk == dummy]) for dummy in range(DUMMIES)]
        if form == "estimated":
            for label in range(stage * CLASSES, (stage + 1) * CLASSES):
                gram += estimate(clients, label, columns)
    return gram, sums


def estimate(clients: list[tuple[np.ndarray, np.ndarray]], label: int, columns: int) -> np.ndarray:
    K = len(clients)
    N = sum(int((y == label).sum()) for _, y in clients)
    first = max(0.0, (N - 1) / (K - 1))
    second = max(0.0, (N - K) / ((K - 1) * N))
    squares, total = np.zeros((columns, columns)), np.zeros(columns)
    for H, y in clients:
        held = H[y == label]
        if len(held):
            S = held.sum(axis=0)
            squares += np.outer(S, S) / len(held)
            total += S
    return first * squares - second * np.outer(total, total)


def fleet(told: StsaAssignment, drawn: Data) -> StsaAggregate:
    R = frozen_map(told)
    total = StsaAggregate.empty(told)
    for (stage, client), (x, y) in drawn.items():
        h = np.maximum(x.astype(np.float32) @ R, 0)
        context = PartContext(seed=b"%d/%d" % (stage, client))
        for part in np.array_split(np.arange(len(y)), PARTS):
            names = [NAMES[label] for label in y[part]]
            payload = DEVICE.finish(told, h[part], names, context).payload
            total = total + StsaAggregate.of(told, COORDINATOR.check(told, payload), stage + 1)
    return total


@pytest.mark.parametrize("form", ["exact", "estimated"])
def test_gram_classifier_and_logits_are_those_of_the_published_program(form):
    told = assignment({**RELEASED, "form": form})
    drawn = data()
    gram, sums = reference(drawn, frozen_map(told), form)
    counts = np.bincount(np.concatenate([y for _, y in drawn.values()]))
    assert 0 < counts.min() < CLIENTS * DUMMIES, "a class with fewer samples than clients"

    made = fleet(told, drawn)
    assert np.abs(made.gram_matrix(told.settings) - gram).max() < 1e-6 * np.abs(gram).max()

    W = np.linalg.inv(gram + RIDGE * np.eye(len(gram))) @ sums
    head = COORDINATOR.solve(told, made, NAMES)
    lengths = np.linalg.norm(head.weights, axis=1)
    assert np.allclose(lengths, lengths[0], rtol=1e-6)
    expected = W / np.linalg.norm(W, axis=0)
    assert np.abs(head.weights / lengths[:, None] - expected.T).max() < 1e-6

    test = np.random.default_rng(1).normal(size=(50, WIDTH)).astype(np.float32)
    h = np.maximum(test @ frozen_map(told), 0).astype(np.float64)
    logits = SIGMA * (h / np.linalg.norm(h, axis=1, keepdims=True)) @ expected
    scores = head.logit_scale * head.scores(h)
    scores /= np.linalg.norm(h, axis=1, keepdims=True) * lengths[0]
    assert np.abs(scores - logits).max() < 1e-5
    assert [NAMES[index] for index in logits.argmax(axis=1)] == head.predict(h)


def test_the_length_of_the_weights_makes_scores_cosines_for_the_usual_sample():
    told = assignment({**RELEASED, "form": "exact"})
    drawn = data()
    head = COORDINATOR.solve(told, fleet(told, drawn), NAMES)
    x = np.concatenate([x for x, _ in drawn.values()]).astype(np.float32)
    h = np.maximum(x @ frozen_map(told), 0).astype(np.float64)
    usual = np.sqrt((h**2).sum(axis=1).mean())
    assert np.linalg.norm(head.weights, axis=1) == pytest.approx(1 / usual, rel=1e-6)


def test_devices_without_images_of_a_stage_count_where_their_number_is_told():
    drawn = data()
    for stage in range(STAGES):
        del drawn[stage, 1]
    told = assignment({**RELEASED, "form": "estimated", "count_all_clients": CLIENTS})
    gram, _ = reference(drawn, frozen_map(told), "estimated")
    made = fleet(told, drawn)
    assert np.abs(made.gram_matrix(told.settings) - gram).max() < 1e-6 * np.abs(gram).max()
    fewer = assignment({**RELEASED, "form": "estimated"})
    others = fleet(fewer, drawn).gram_matrix(fewer.settings)
    assert np.abs(others - gram).max() > 1e-3 * np.abs(gram).max()


def test_k_is_clients_times_dummies_also_where_a_client_has_fewer_samples_than_dummies():
    told = assignment({**RELEASED, "form": "estimated", "groups": 5})
    rng = np.random.default_rng(3)
    h = np.maximum(rng.normal(size=(43, told.columns)), 0).astype(np.float32)
    shares = np.split(np.arange(43), [20, 30, 40])  # 20, 10, 10 and 3 samples
    total, clients = StsaAggregate.empty(told), []
    for client, rows in enumerate(shares):
        context = PartContext(seed=b"%d" % client)
        payload = DEVICE.finish(told, h[rows], [NAMES[0]] * len(rows), context).payload
        total = total + StsaAggregate.of(told, COORDINATOR.check(told, payload), 1)
        order = _shuffled(len(rows), b"%d" % client)
        size = len(rows) // 5
        ends = [size, 2 * size, 3 * size, 4 * size]
        wide = h[rows].astype(np.float64)
        clients += [(wide[chunk], np.zeros(len(chunk), int)) for chunk in np.split(order, ends)]
    assert [len(y) for _, y in clients][-5:] == [0, 0, 0, 0, 3]
    expected = estimate(clients, 0, told.columns)
    assert len(clients) == 20
    made = total.gram_matrix(told.settings)
    assert np.abs(made - expected).max() < 1e-6 * np.abs(expected).max()  # sums are rounded
    held = [client for client in clients if len(client[1])]
    assert len(held) == 16
    off = np.linalg.norm(estimate(held, 0, told.columns) - expected) / np.linalg.norm(expected)
    assert 0.01 < off < 0.2, "what counting those with samples alone would give"


def test_payloads_from_before_rows_named_their_groups_are_read_as_they_were():
    told = assignment({**RELEASED, "form": "estimated"})
    x, y = data()[0, 0]
    h = np.maximum(x.astype(np.float32) @ frozen_map(told), 0)
    payload = DEVICE.finish(told, h, [NAMES[label] for label in y], PartContext(seed=b"a")).payload
    new = COORDINATOR.check(told, payload)
    assert isinstance(new.gram, GroupSums)
    before = replace(new, gram=replace(new.gram, dealer="", row_groups=None))
    old = COORDINATOR.check(told, encode_statistics(before))
    assert isinstance(old.gram, GroupSums)
    assert old.gram.row_groups is None
    one, other = StsaAggregate.of(told, old, 1), StsaAggregate.of(told, new, 1)
    assert np.allclose(one.gram_matrix(told.settings), other.gram_matrix(told.settings))


@pytest.mark.parametrize("groups", [[0, 0], [1, 0], [0, 4], [-1, 0]])
def test_rows_that_name_no_group_or_one_twice_are_refused(groups):
    told = assignment({**RELEASED, "form": "estimated"})
    h = np.ones((8, told.columns), np.float32)
    payload = DEVICE.finish(told, h, [NAMES[0]] * 8, PartContext(seed=b"a")).payload
    made = COORDINATOR.check(told, payload)
    assert isinstance(made.gram, GroupSums)
    two = ScaledIntegers(made.gram.sums.values[:2], made.gram.sums.exponent)
    spoilt = replace(
        made.gram,
        per_class=np.array([2]),
        counts=made.gram.counts[:2],
        sums=two,
        row_groups=np.array(groups),
    )
    with pytest.raises(ContributionError, match="row_groups"):
        COORDINATOR.check(
            told, encode_statistics(LocalStatistics.of_groups(made.class_names, spoilt))
        )
