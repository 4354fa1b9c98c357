"""What learners ask of anchors, written out in plain Python for one agent."""

from itertools import combinations
from math import sqrt

from tests.learning.losses.slow import cosine, divergence, mean


def margin_ranking(cosines, targets, new, hardest, margin):
    """Mean over old samples' pairs with the new classes that score highest."""
    losses = []
    for row, target in zip(cosines, targets, strict=True):
        if target not in new:
            for rival in sorted((row[c] for c in new), reverse=True)[:hardest]:
                losses.append(max(0.0, margin - row[target] + rival))
    return mean(losses)


def huber(x):
    return x * x / 2 if abs(x) <= 1 else abs(x) - 1 / 2


def relation(features, old, triples):
    losses = []
    for i, j, k in triples:
        now, before = (cosine(f[i] - f[j], f[k] - f[j]) for f in (features, old))
        losses.append(huber(now - before))
    return mean(losses)


def topology(features, old):
    """Minus the correlation of both sides' similarities, 0 where there is none."""
    pairs = list(combinations(range(len(features)), 2))
    if len(pairs) < 2:
        return 0.0
    now, before = ([cosine(f[i], f[j]) for i, j in pairs] for f in (features, old))
    a, b = mean(now), mean(before)
    above = sum((x - a) * (y - b) for x, y in zip(now, before, strict=True))
    return -above / sqrt(sum((x - a) ** 2 for x in now) * sum((y - b) ** 2 for y in before))


def ensemble(logits, wanted, temperature, classes, reduction):
    losses = [
        divergence([z], [s], temperature, classes) for z, s in zip(wanted, logits, strict=True)
    ]
    if reduction == "sum":
        return sum(losses)
    return mean(losses) * (temperature**2 if reduction == "mean_tau2" else 1)
