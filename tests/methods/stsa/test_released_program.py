"""The settings that reproduce the published program, against a slow float64 account of it.

What the program does: h = relu(x R) with R from N(0, 1); every client shuffles the data of the
stage and cuts them into equal chunks, the last taking the rest, each a client of its own; the
estimate counts all of these for every class and sets negative coefficients to 0; Gram matrix and
class sums are added over stages; logits are sigma <h/|h|, w/|w|>.
"""

from typing import Any

import numpy as np
import pytest

from learning.numerics.grouping import split_shuffled
from methods.part import PartContext
from methods.stsa.coordinator import Aggregate, check, frozen_map, solve
from methods.stsa.device import finish
from methods.stsa.messages import StsaAssignment
from schemas.values import ClassName
from tests.methods.stsa.fleet import WIDTH, assignment

CLIENTS, DUMMIES, STAGES, CLASSES = 3, 4, 3, 3
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
            drawn[stage, client] = (
                centres[labels] + rng.normal(size=(len(labels), WIDTH)),
                labels,
            )
    return drawn


def reference(drawn: Data, R: np.ndarray, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix and class sums after all stages, one loop at a time."""
    columns = R.shape[1]
    gram, sums = np.zeros((columns, columns)), np.zeros((columns, len(NAMES)))
    for stage in range(STAGES):
        clients = []
        for client in range(CLIENTS):
            x, y = drawn[stage, client]
            H = np.maximum(x.astype(np.float32) @ R, 0).astype(np.float64)
            for row, label in zip(H, y, strict=True):
                sums[:, label] += row
            if form == "exact":
                gram += H.T @ H
            chunk = split_shuffled(len(H), DUMMIES, b"%d/%d" % (stage, client))
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


def fleet(told: StsaAssignment, drawn: Data) -> Aggregate:
    R = frozen_map(told)
    total = Aggregate.empty(told)
    for (stage, client), (x, y) in drawn.items():
        h = np.maximum(x.astype(np.float32) @ R, 0)
        context = PartContext(seed=b"%d/%d" % (stage, client))
        payload = finish(told, h, [NAMES[label] for label in y], context).payload
        total = total + Aggregate.of(told, check(told, payload), stage + 1)
    return total


@pytest.mark.parametrize("form", ["exact", "estimated"])
def test_gram_classifier_and_logits_are_those_of_the_published_program(form):
    told = assignment({**RELEASED, "form": form})
    drawn = data()
    gram, sums = reference(drawn, frozen_map(told), form)
    counts = np.bincount(np.concatenate([y for _, y in drawn.values()]))
    assert 0 < counts.min() < CLIENTS * DUMMIES, "a class with fewer samples than clients"

    made = fleet(told, drawn)
    assert np.abs(made.gram_matrix(told.settings) - gram).max() < 1e-8 * np.abs(gram).max()

    W = np.linalg.inv(gram + RIDGE * np.eye(len(gram))) @ sums
    head = solve(made, told.settings, NAMES)
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
    head = solve(fleet(told, drawn), told.settings, NAMES)
    x = np.concatenate([x for x, _ in drawn.values()]).astype(np.float32)
    h = np.maximum(x @ frozen_map(told), 0).astype(np.float64)
    usual = np.sqrt((h**2).sum(axis=1).mean())
    assert np.linalg.norm(head.weights, axis=1) == pytest.approx(1 / usual, rel=1e-6)
