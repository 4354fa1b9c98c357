"""A batch with everything that goes wrong: ignored pixels, absent classes, an empty image.

Three tasks of two classes. Of the new classes, 5 and 6, none shows 6; old class 4 is never the old
model's guess; the last image shows background and ignored pixels only.
"""

import numpy as np

TASKS = (0, 1, 1, 2, 2, 3, 3)
CHANNELS, OLD = len(TASKS), 5
IMAGES, HEIGHT, WIDTH = 3, 5, 6
NEVER = 4
"""The class that the old model never guesses."""


def drawn(seed=0):
    """Return logits (B, C, h, w), the old model's, and labels (B, h, w)."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(IMAGES, CHANNELS, HEIGHT, WIDTH))
    old = 2 * generator.normal(size=(IMAGES, OLD, HEIGHT, WIDTH))
    old[:, NEVER] -= 20
    kinds = generator.choice([0, 5, 255], size=(IMAGES, HEIGHT, WIDTH), p=[0.6, 0.25, 0.15])
    kinds[-1] = np.where(kinds[-1] == 5, 0, kinds[-1])
    return logits, old, kinds.astype(np.int64)


def drawn_maps(seed=0):
    """Return feature maps of three sizes, one not square, one smaller than four."""
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(IMAGES, *shape)) for shape in ((3, 9, 7), (4, 5, 5), (2, 3, 3))]
