"""The equations written out pixel by pixel in plain Python; logits are arrays (B, C, h, w)."""

from math import exp, floor, inf, log, sqrt

from tests.learning.losses.slow import mean, softmax

IGNORED = 255


def pixels(labels):
    """Every place (image, row, column)."""
    images, height, width = labels.shape
    return [(i, r, c) for i in range(images) for r in range(height) for c in range(width)]


def scores(logits, place):
    i, r, c = place
    return [float(value) for value in logits[i, :, r, c]]


def probabilities(logits, place):
    return softmax(scores(logits, place))


def highest(values):
    return max(range(len(values)), key=lambda index: values[index])


def entropy(logits, place):
    return -sum(p * log(p) for p in probabilities(logits, place) if p > 0)


def sigmoid(value):
    return 1 / (1 + exp(-value))


def counted(labels):
    return [place for place in pixels(labels) if labels[place] != IGNORED]


def cross_entropy(logits, labels, weights=None):
    """Mean over the pixels that count of w CE."""
    return mean(
        (1.0 if weights is None else weights[place])
        * -log(probabilities(logits, place)[labels[place]])
        for place in counted(labels)
    )


# --- labels


def adaptive_thresholds(batches, old_channels, share):
    entropies = {k: [] for k in range(1, old_channels)}
    for logits, old, labels in batches:
        for place in counted(labels):
            guess = highest(scores(old, place))
            if guess:
                entropies[guess].append(entropy(logits, place))
    thresholds = [-inf]
    for k in range(1, old_channels):
        ordered = sorted(entropies[k])
        index = min(floor(len(ordered) * share), len(ordered) - 1)
        thresholds.append(ordered[index] if ordered else -inf)
    return thresholds


def adaptive_labels(logits, old, labels, thresholds, unsure):
    made = labels.copy()
    for place in pixels(labels):
        guess = highest(scores(old, place))
        if labels[place] == 0 and guess != 0:
            made[place] = guess if entropy(logits, place) <= thresholds[guess] else unsure
    return made


def median_thresholds(batches, old_channels):
    entropies = {k: [] for k in range(old_channels)}
    for old, labels in batches:
        for place in pixels(labels):
            if labels[place] == 0:
                entropies[highest(scores(old, place))].append(entropy(old, place))
    thresholds = []
    for values in entropies.values():
        ordered, n = sorted(values), len(values)
        middle = ordered[(n - 1) // 2 : n // 2 + 1]
        thresholds.append(mean(middle) if middle else -inf)
    return thresholds


def median_labels(old, labels, thresholds):
    made, factors = labels.copy(), []
    for i in range(len(labels)):
        asked = [place for place in pixels(labels) if place[0] == i and labels[place] == 0]
        accepted = 0
        for place in asked:
            guess = highest(scores(old, place))
            sure = entropy(old, place) <= thresholds[guess]
            made[place] = guess if sure else IGNORED
            accepted += sure
        factors.append(accepted / len(asked) if asked else 1.0)
    return made, factors


def released_entropy(old, place, channels):
    p = probabilities(old, place)
    return -sum(q * log(q + 1e-8) for q in p) / (len(p) * log(len(p))) / log(channels)


def released_histograms(batches, old_channels, channels):
    counts = [[0] * 100 for _ in range(old_channels)]
    for old, labels in batches:
        for place in pixels(labels):
            if labels[place] == 0:
                number = min(int(released_entropy(old, place, channels) * 100), 99)
                counts[highest(scores(old, place))][number] += 1
    return counts


def released_quantile(counts, share):
    """The histogram's quantile with a running sum of bins' numbers in place of their counts."""
    total = sum(counts)
    if total == 0:
        return 0.001
    wanted, running = total * share, 0.0
    for number in range(len(counts)):
        if running <= wanted <= running + counts[number]:
            break
        running += number
    if counts[number] == 0 and wanted == running:
        return -inf  # 0 / 0
    if counts[number] == 0:
        inside = inf if wanted > running else -inf
    else:
        inside = (wanted - running) / counts[number]
    return max(number / len(counts) + inside / len(counts), 0.001)


def released_labels(old, labels, thresholds, channels):
    made, factors = labels.copy(), []
    old_channels = old.shape[1]
    for i in range(len(labels)):
        asked = [
            place for place in pixels(labels) if place[0] == i and labels[place] < old_channels
        ]
        accepted = 0
        for place in asked:
            guess = highest(scores(old, place))
            sure = released_entropy(old, place, channels) < thresholds[guess]
            made[place] = guess if sure else IGNORED
            accepted += sure
        factors.append(accepted / (len(asked) + 1e-6))
    return made, factors


# --- FBL, paper mode


def balanced(logits, labels, old_channels, exponent):
    """Gb of every pixel that counts."""
    values = {}
    for place in counted(labels):
        k = labels[place]
        gradient = abs(probabilities(logits, place)[k] - 1)
        values[place] = gradient**exponent if 1 <= k < old_channels else gradient
    return values


def balancing_weights(values, labels, tasks):
    weights = {}
    for place, value in values.items():
        group = [v for other, v in values.items() if tasks[labels[other]] == tasks[labels[place]]]
        weights[place] = value / mean(group) if sum(group) > 0 else 1.0
    return weights


def relation_consistency(logits, old, labels, values, tasks):
    channels, old_channels = logits.shape[1], old.shape[1]
    total = 0.0
    for k in range(1, channels):
        own = [place for place in counted(labels) if labels[place] == k]
        if not own:
            continue
        found = [mean(probabilities(logits, place)[c] for place in own) for c in range(channels)]
        wanted = [
            mean(relation_label(old, place, labels, c) for place in own) for c in range(channels)
        ]
        wanted = [value / sum(wanted) for value in wanted]
        task = [values[place] for place in values if tasks[labels[place]] == tasks[k]]
        ratio = mean(values[place] for place in own) / mean(task) if sum(task) else 1.0
        total += ratio * sum(y * log(y / p) for y, p in zip(wanted, found, strict=True) if y > 0)
    assert old_channels < channels
    return total / (channels - 1)


def relation_label(old, place, labels, channel):
    if channel < old.shape[1]:
        return probabilities(old, place)[channel]
    return float(labels[place] == channel)


def pooled(image, scales=(1, 2, 4)):
    """Of squares of one image (c, h, w): means of all rows and columns of all regions."""
    depth, height, width = image.shape
    values = []
    for s in scales:
        high, wide = height // s, width // s
        for i in range(s):
            for j in range(s):
                for c in range(depth):
                    region = [
                        [float(image[c, y, x]) ** 2 for x in range(j * wide, (j + 1) * wide)]
                        for y in range(i * high, (i + 1) * high)
                    ]
                    values += [(s, i, j, c, "row", y, mean(row)) for y, row in enumerate(region)]
                    columns = list(zip(*region, strict=True))
                    values += [(s, i, j, c, "col", x, mean(col)) for x, col in enumerate(columns)]
    return [value[-1] for value in values]


def local_pod(pairs, factors, new_classes, channels):
    losses = []
    for (now, old), factor in zip(pairs, factors, strict=True):
        norms = []
        for a, b in zip(now, old, strict=True):
            difference = [x - y for x, y in zip(pooled(a), pooled(b), strict=True)]
            norms.append(sqrt(sum(value**2 for value in difference)))
        losses.append(factor * sqrt(channels / new_classes) * mean(norms))
    return mean(losses)


# --- FBL, code mode


def released_weights(logits, labels, tasks, old_channels):
    channels, current = logits.shape[1], tasks[-1]
    g = {
        place: abs(sigmoid(scores(logits, place)[labels[place]]) - 1) ** (old_channels / channels)
        for place in counted(labels)
    }
    weights = {}
    for place, value in g.items():
        task = tasks[labels[place]]
        if task <= 1:
            weights[place] = value / mean(g[o] for o in g if tasks[labels[o]] <= 1)
        elif task == current:
            weights[place] = 1.0
        else:
            weights[place] = sum(
                value / mean(g[o] for o in g if 2 <= tasks[labels[o]] <= j)
                for j in range(task, current)
            )
    return weights


def released_cross_entropy(logits, labels, weights, factors):
    losses = [
        -factors[place[0]] * weights[place] * log(probabilities(logits, place)[labels[place]])
        for place in counted(labels)
    ]
    return sum(losses) / labels.size


def soft_label_loss(logits, old, labels):
    losses, channels = [], logits.shape[1]
    for place in pixels(labels):
        wanted = [sigmoid(score) for score in scores(old, place)]
        wanted += [float(labels[place] == c) for c in range(len(wanted), channels)]
        q, p = softmax(wanted), probabilities(logits, place)
        losses.append(-mean(a * log(b) for a, b in zip(q, p, strict=True)))
    return mean(losses)


def output_entropy(logits, labels):
    return mean(-p * log(p) for place in pixels(labels) for p in probabilities(logits, place))


def class_confidence(logits, old, labels, weights):
    terms = []
    for c in range(logits.shape[1]):
        predicted = [place for place in pixels(labels) if highest(scores(logits, place)) == c]
        labelled = [place for place in pixels(labels) if labels[place] == c]
        now = mean(max(probabilities(logits, place)) for place in predicted)
        before = mean(max(probabilities(old, place)) for place in labelled)
        terms.append(abs(mean(weights[place] for place in labelled) * (now - before)))
    return mean(terms)


# --- baselines


def pixel_distillation(logits, old, labels):
    losses = []
    for place in counted(labels):
        q = probabilities(old, place)
        p = softmax(scores(logits, place)[: len(q)])
        losses.append(-mean(a * log(b) for a, b in zip(q, p, strict=True)))
    return mean(losses)


def unbiased_cross_entropy(logits, labels, old_channels):
    losses = []
    for place in counted(labels):
        p, k = probabilities(logits, place), labels[place]
        losses.append(-log(p[k] if k >= old_channels else sum(p[:old_channels])))
    return mean(losses)


def unbiased_distillation(logits, old, labels):
    losses, old_channels = [], old.shape[1]
    for place in counted(labels):
        p, q = probabilities(logits, place), probabilities(old, place)
        merged = [p[0] + sum(p[old_channels:]), *p[1:old_channels]]
        losses.append(-mean(a * log(b) for a, b in zip(q, merged, strict=True)))
    return mean(losses)
