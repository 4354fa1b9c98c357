"""A small network and DCID's losses on it, by hand in NumPy and float64, from the paper's page."""

from __future__ import annotations

from math import sqrt

import numpy as np

from tests.learning.losses import slow, slow_anchors

Arrays = dict[str, np.ndarray]


def passed(arrays: Arrays, inputs: np.ndarray, *, training: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return features and logits of the network `mlp`; `training` is normalised by the batch."""
    values = inputs.reshape(len(inputs), -1)
    for layer in range(2):
        values = values @ arrays[f"linear{layer}.weight"].T + arrays[f"linear{layer}.bias"]
        norm = f"norm{layer}"
        mean, variance = arrays[f"{norm}.running_mean"], arrays[f"{norm}.running_var"]
        if training:
            mean, variance = values.mean(axis=0), values.var(axis=0)
        values = (values - mean) / np.sqrt(variance + 1e-5)
        values = np.maximum(values * arrays[f"{norm}.weight"] + arrays[f"{norm}.bias"], 0)
    rows = arrays["head.weight"]
    if "head.scale" in arrays:
        return values, arrays["head.scale"] * cosines(rows, values)
    return values, values @ rows.T + arrays["head.bias"]


def cosines(rows: np.ndarray, features: np.ndarray) -> np.ndarray:
    return np.array([[slow.cosine(row, feature) for row in rows] for feature in features])


def distilled(logits: np.ndarray, wanted: np.ndarray, classes: list[int], tau: float) -> float:
    """Equations (3) and (5), the mean over the shared set."""
    return slow.divergence(wanted, logits, tau, classes)


def classification(learner: str, logits: np.ndarray, targets: np.ndarray) -> float:
    """l_c over new images and anchors and all classes."""
    if learner != "icarl, sigmoid":
        return slow.cross_entropy(logits, targets, list(range(logits.shape[1])))
    wanted = np.eye(logits.shape[1])[targets]
    return slow.binary(logits, wanted, np.ones(len(logits)))


def anchor_loss(learner: str, step: dict) -> float:
    """lambda l_a of the rows that it looks at; `step` is what `losses` saw of them."""
    logits, old, features, before = (step[k] for k in ("logits", "old", "features", "before"))
    known, classes = old.shape[1], logits.shape[1]
    if learner == "icarl":
        return 5 * slow.divergence(old, logits, 2.0, list(range(known)))
    if learner == "icarl, sigmoid":
        sigmoids = 1 / (1 + np.exp(-old))
        return 5 * slow.binary(logits[:, :known], sigmoids, np.ones(len(logits)))
    if learner == "lucir":
        angle = slow.mean(1 - slow.cosine(a, b) for a, b in zip(features, before, strict=True))
        return 5 * sqrt(known / (classes - known)) * angle
    if learner == "erdil":
        return 100 * slow_anchors.relation(features, before, step["triples"])
    return 15 * slow_anchors.topology(features, before)
