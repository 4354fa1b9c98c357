"""The terms written out in plain Python, sample by sample, for one agent."""

from math import exp, log

import numpy as np


def softmax(scores):
    top = max(scores)
    powers = [exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def cross_entropy(logits, targets, classes):
    """Mean over the samples whose class is among `classes`, softmax over these alone."""
    losses = []
    for scores, target in zip(logits, targets, strict=True):
        if target in classes:
            p = softmax([scores[c] for c in classes])
            losses.append(-log(p[classes.index(target)]))
    return mean(losses)


def cross_entropy_within_tasks(logits, targets, tasks, prior):
    """Mean over the samples, softmax over the classes of the sample's own task alone."""
    losses = []
    for scores, target in zip(logits, targets, strict=True):
        classes = [c for c in range(len(tasks)) if tasks[c] == tasks[target]]
        p = softmax([scores[c] + prior[c] for c in classes])
        losses.append(-log(p[classes.index(target)]))
    return mean(losses)


def prior_cross_entropy(logits, targets, counts, strength):
    """Mean of -ln of n_y^tau e^(z_y) as a share of the sum over all classes."""
    losses = []
    for scores, target in zip(logits, targets, strict=True):
        powers = [n**strength * exp(z) for n, z in zip(counts, scores, strict=True)]
        losses.append(-log(powers[target] / sum(powers)))
    return mean(losses)


def distillation(logits, teacher, temperature, classes):
    losses = []
    for new, old in zip(logits, teacher, strict=True):
        p = softmax([old[c] / temperature for c in classes])
        q = softmax([new[c] / temperature for c in classes])
        losses.append(-sum(a * log(b) for a, b in zip(p, q, strict=True)))
    return mean(losses)


def divergence(one, two, temperature, classes):
    """KL(one || two) of scores."""
    losses = []
    for a_scores, b_scores in zip(one, two, strict=True):
        p = softmax([a_scores[c] / temperature for c in classes])
        q = softmax([b_scores[c] / temperature for c in classes])
        losses.append(sum(a * log(a / b) for a, b in zip(p, q, strict=True)))
    return mean(losses)


def fedmax(features, direction, reduction):
    losses = []
    for row in features:
        p, width = softmax(row), len(row)
        if direction == "uniform_first":
            value = sum(1 / width * log(1 / width / q) for q in p)
        else:
            value = sum(q * log(q * width) for q in p)
        losses.append(value / width if reduction == "mean" else value)
    return mean(losses)


def half_squared_distance(parameters, anchor, fisher=None):
    total = 0.0
    for name, old in anchor.items():
        new = parameters[name][: len(old)] if old.ndim else parameters[name]
        importance = np.ones_like(old) if fisher is None else fisher[name]
        for f, a, b in zip(importance.flat, new.flat, old.flat, strict=True):
            total += 0.5 * f * (a - b) ** 2
    return total


def binary(logits, labels, factor):
    losses = []
    for scores, wanted, w in zip(logits, labels, factor, strict=True):
        for z, y in zip(scores, wanted, strict=True):
            p = 1 / (1 + exp(-z))
            losses.append(-w * (y * log(p) + (1 - y) * log(1 - p)))
    return mean(losses)


def cosine(one, two):
    return float(one @ two / np.linalg.norm(one) / np.linalg.norm(two))


def feature_balance(features, targets, new):
    """|mean over new classes of their mean length - the same over old ones|, 0 without either."""
    lengths = {}
    for row, target in zip(features, targets, strict=True):
        lengths.setdefault(int(target), []).append(sum(float(x) ** 2 for x in row) ** 0.5)
    of_new = [mean(lengths[c]) for c in lengths if c in new]
    of_old = [mean(lengths[c]) for c in lengths if c not in new]
    return abs(mean(of_new) - mean(of_old)) if of_new and of_old else 0.0


def unit(vector):
    length = sum(x * x for x in vector) ** 0.5
    return [x / length for x in vector] if length else list(vector)


def pooled(maps):
    """Squares of one sample's maps (c, h, w), summed over columns and rows, at length 1."""
    sums = []
    for channel in maps:
        squares = [[x * x for x in row] for row in channel]
        sums += [sum(row) for row in squares]
        sums += [sum(column) for column in zip(*squares, strict=True)]
    return unit(sums)


def pooled_distance(now, old, power=2):
    """Mean over samples of the distance of pooled maps, squared as PODNet prints it."""
    squares = [
        sum((a - b) ** 2 for a, b in zip(pooled(one), pooled(two), strict=True))
        for one, two in zip(now, old, strict=True)
    ]
    return mean(square ** (power / 2) for square in squares)


def local_similarity(scores, target, shift):
    """[ - ln of e^(z_t - shift) over the sum of all others' ]_+."""
    others = sum(exp(z) for c, z in enumerate(scores) if c != target)
    return max(0.0, -log(exp(scores[target] - shift) / others))
