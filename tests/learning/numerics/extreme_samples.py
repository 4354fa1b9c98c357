"""Samples at the edges of what can be: no rule on moments may refuse theirs."""

from collections.abc import Iterator

import numpy as np

RANGES = [(0, 127), (0, 255), (-127, 127)]
"""Of integer features: 7 and 8 bits behind the integer map, and without a map."""


def extreme_samples(ends: tuple[int, int], columns: int) -> Iterator[tuple[str, np.ndarray, list]]:
    """Yield name, features (n, M) and classes (n,) of samples at the edges of what can be."""
    low, high = ends
    rng = np.random.default_rng(5)

    def drawn(rows: int) -> np.ndarray:
        return rng.integers(low, high + 1, (rows, columns))

    one = drawn(1)
    yield "one sample", drawn(1), [0]
    yield "one sample of zeros", np.zeros((1, columns), int), [0]
    yield "zeros of ten classes", np.zeros((200, columns), int), np.arange(200) % 10
    yield "equal samples of one class", np.repeat(one, 500, 0), np.zeros(500, int)
    yield "equal samples of all classes", np.repeat(one, 500, 0), np.arange(500) % 100
    yield "all at the largest", np.full((1000, columns), high), np.arange(1000) % 100
    yield "a vector for each class", np.repeat(drawn(100), 10, 0), np.repeat(np.arange(100), 10)
    yield "a class of one", drawn(1000), np.r_[np.zeros(999, int), 1]
    yield "a hundred classes of one", drawn(100), np.arange(100)
    two = np.outer(rng.integers(0, 12, 1000), rng.integers(0, 11, columns))
    yield "rank two", np.clip(two, low, high), np.arange(1000) % 100
    near = np.repeat(one, 1000, 0) + rng.integers(-1, 2, (1000, columns))
    yield "near copies", np.clip(near, low, high), np.arange(1000) % 100
    yield "corners", rng.choice([low, high], (1000, columns)), np.arange(1000) % 100
    yield "many of all classes", drawn(10_000), np.arange(10_000) % 100
    corners = rng.choice([low, high], (10_000, columns))
    yield "many corners of one class", corners, np.zeros(10_000, int)


NAMES = [name for name, _, _ in extreme_samples((0, 1), 1)]
