"""DCID's losses and herding once more: one sample after the other, NumPy, no cleverness.

Only the network itself is the product's.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.held_rows import joined_rows
from fleetledger.learning.networks.torch_layers import Mode, forward

LENGTH = 1e-12


def passed(network, arrays, pictures, images):
    parameters, buffers = to_tensors(arrays)
    inputs = pictures.normalise(torch.tensor(np.asarray(images)))
    with torch.no_grad():
        return forward(network, parameters, buffers, inputs, Mode())


def features(network, arrays, pictures, images) -> np.ndarray:
    return passed(network, arrays, pictures, images).features.numpy().astype(np.float64)


def logits(network, arrays, pictures, images) -> np.ndarray:
    return passed(network, arrays, pictures, images).logits.numpy().astype(np.float64)


def herded(rows: np.ndarray, count: int) -> list[int]:
    """Equation (2) as printed: features as they are."""
    mean, chosen = rows.mean(axis=0), []
    while len(chosen) < min(count, len(rows)):
        best, place = None, None
        for candidate in range(len(rows)):
            if candidate in chosen:
                continue
            total = rows[[*chosen, candidate]].sum(axis=0) / (len(chosen) + 1)
            distance = float(np.linalg.norm(mean - total))
            if best is None or distance < best:
                best, place = distance, candidate
        chosen.append(place)
    return chosen


class Seen:
    """What student and teacher make of a work's samples, all in one batch."""

    def __init__(self, work: Any, pictures: Any) -> None:
        inputs = pictures.normalise(work.data.inputs)
        parameters = joined_rows(work.frozen.get("fixed", {}), work.parameters)
        network, teacher = work.loss.network, work.frozen["old_model"]
        with torch.no_grad():
            new = forward(network, parameters, work.buffers, inputs, Mode(training=True))
            old = forward(network, teacher["parameters"], teacher["buffers"], inputs, Mode())
        self.scores, self.old_scores = (part.logits.numpy().astype(float) for part in (new, old))
        self.features = new.features.numpy().astype(float)
        self.old_features = old.features.numpy().astype(float)
        self.targets = work.data.targets.tolist()
        self.anchors = work.data.extras["anchor"].tolist()
        self.new = work.frozen["new"].tolist()
        weight = parameters["head.weight"].numpy().astype(float)
        self.cosines = np.array([[cosine(f, w) for w in weight] for f in self.features])


def cosine(one: np.ndarray, two: np.ndarray) -> float:
    return float(one @ two / (np.linalg.norm(one) * np.linalg.norm(two) + LENGTH))


def softmax(scores) -> list[float]:
    powers = [exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def cross_entropy(seen: Seen) -> float:
    return float(
        np.mean([-log(softmax(z)[y]) for z, y in zip(seen.scores, seen.targets, strict=True)])
    )


def binary(score: float, label: float) -> float:
    p = 1 / (1 + exp(-score))
    return -label * log(p) - (1 - label) * log(1 - p)


def counted(seen: Seen, everywhere: bool) -> list[int]:
    return [row for row, is_anchor in enumerate(seen.anchors) if everywhere or is_anchor]


def icarl(work, pictures, strength: float, *, everywhere: bool, scores: str) -> float:
    seen = Seen(work, pictures)
    rows, old = counted(seen, everywhere), seen.old_scores.shape[1]
    if scores == "softmax":
        classified = cross_entropy(seen)
        kept = []
        for row in rows:
            p, q = softmax(seen.old_scores[row] / 2), softmax(seen.scores[row][:old] / 2)
            kept.append(sum(a * (log(a) - log(b)) for a, b in zip(p, q, strict=True)))
        return classified + strength * float(np.mean(kept))
    classified = np.mean(
        [
            binary(score, float(place == target))
            for z, target in zip(seen.scores, seen.targets, strict=True)
            for place, score in enumerate(z)
        ]
    )
    kept = [
        binary(seen.scores[row][place], 1 / (1 + exp(-seen.old_scores[row][place])))
        for row in rows
        for place in range(old)
    ]
    return float(classified + strength * np.mean(kept))


def lucir(work, pictures, strength: float, *, everywhere: bool) -> float:
    seen = Seen(work, pictures)
    angles = [
        1 - cosine(seen.features[row], seen.old_features[row]) for row in counted(seen, everywhere)
    ]
    new = [place for place, is_new in enumerate(seen.new) if is_new]
    pairs = []
    for row in counted(seen, everywhere=False):
        hardest = sorted((seen.cosines[row][place] for place in new), reverse=True)[:2]
        true = seen.cosines[row][seen.targets[row]]
        pairs += [max(0.0, 0.5 - true + other) for other in hardest]
    factor = strength * sqrt((len(seen.new) - len(new)) / len(new))
    return cross_entropy(seen) + factor * float(np.mean(angles)) + float(np.mean(pairs))


def tpcil(work, pictures, strength: float) -> float:
    seen = Seen(work, pictures)
    rows = counted(seen, everywhere=False)
    now, before = [], []
    for place, one in enumerate(rows):
        for other in rows[place + 1 :]:
            now.append(cosine(seen.features[one], seen.features[other]))
            before.append(cosine(seen.old_features[one], seen.old_features[other]))
    return cross_entropy(seen) - strength * float(np.corrcoef(now, before)[0, 1])


def fedmax(work, pictures) -> float:
    seen = Seen(work, pictures)
    width = seen.features.shape[1]
    values = []
    for row in seen.features:
        p = softmax(row)
        values.append(sum((log(1 / width) - log(q)) / width for q in p) / width)
    return float(np.mean(values))
