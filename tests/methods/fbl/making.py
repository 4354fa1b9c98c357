"""Small fleets of FBL: scenes with coloured squares of four classes, questions, orders, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fleetledger.methods.fbl.coordinator import COORDINATOR
from fleetledger.methods.fbl.messages import frame_of, received
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.exchange import Exchange

SIDE = 16
SHAPE = (3, SIDE, SIDE)
ANT, BEE, CAT, DOG, EEL = (ClassName(name) for name in ("ant", "bee", "cat", "dog", "eel"))
EVERY = (ANT, BEE, CAT, DOG)
STAGES = (1, 1, 2, 2)
COLOURS = {ANT: (250, 0, 0), BEE: (0, 250, 0), CAT: (0, 0, 250), DOG: (250, 250, 0)}
COLOURS[EEL] = (0, 250, 250)
_SQUARE = 6


EXCHANGE = Exchange(
    COORDINATOR,
    lambda of, question: received(
        of, question.weights, question.weights_class_names, question.class_names
    ),
    lambda of, first, _: frame_of(of, first),
    (ANT, BEE),
    SHAPE,
    {
        "network": "small_dense",
        "epochs": 2,
        "batch": 5,
        "first_rate": 0.05,
        "rate": 0.02,
        "detection": "stage",
    },
)
assignment = EXCHANGE.assignment
asked, sent, moved = EXCHANGE.asked, EXCHANGE.sent, EXCHANGE.moved
answer, answers = EXCHANGE.answer, EXCHANGE.answers


def scenes(
    count: int, *names: ClassName, hidden: Sequence[ClassName] = (), seed: int = 0
) -> LocalData:
    """Scenes with a square of one or two of the classes, and one of a hidden class in the rest.

    Masks show the first, with a border that is left out, and call hidden ones background.
    """
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 60, (count, *SHAPE)).astype(np.uint8)
    masks = np.zeros((count, SIDE, SIDE), np.uint8)
    known = tuple(sorted(names))
    for number in range(count):
        cells = random.permutation([(0, 0), (0, 8), (8, 0), (8, 8)])
        first = names[number % len(names)]
        also = names[(number + 1) % len(names)] if number % 3 == 0 else None
        shown = {first: cells[0], also: cells[1]} if also else {first: cells[0]}
        for name, (top, left) in shown.items():
            _paint(pictures[number], COLOURS[name], top, left)
            masks[number, top : top + _SQUARE, left : left + _SQUARE] = known.index(name) + 1
            masks[number, top, left : left + _SQUARE] = 255
        for name, (top, left) in zip(hidden, cells[2:], strict=False):
            _paint(pictures[number], COLOURS[name], top, left)
    return LocalData(
        pictures,
        tuple(names[number % len(names)] for number in range(count)),
        tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count)),
        masks=masks,
        mask_class_names=known,
    )


def together(*parts: LocalData) -> LocalData:
    """All scenes of the parts, whose masks get one numbering."""
    known = tuple(sorted({name for part in parts for name in part.mask_class_names}))
    return LocalData(
        np.concatenate([part.inputs for part in parts]),
        tuple(name for part in parts for name in part.class_names),
        tuple(digest for part in parts for digest in part.digests),
        masks=np.concatenate([_numbered(part, known) for part in parts]),
        mask_class_names=known,
    )


def renamed(data: LocalData, names: Mapping[ClassName, ClassName]) -> LocalData:
    """The same scenes, some of whose classes have other names."""
    known = tuple(sorted({names.get(name, name) for name in data.mask_class_names}))
    values = np.zeros(256, np.uint8)
    values[255] = 255
    for value, name in enumerate(data.mask_class_names, start=1):
        values[value] = known.index(names.get(name, name)) + 1
    assert data.masks is not None
    labels = tuple(names.get(name, name) for name in data.class_names)
    return LocalData(
        data.inputs, labels, data.digests, masks=values[data.masks], mask_class_names=known
    )


def _paint(picture: npt.NDArray[np.uint8], colour: Sequence[int], top: int, left: int) -> None:
    square = picture[:, top : top + _SQUARE, left : left + _SQUARE]
    square[:] = np.clip(square // 2 + np.array(colour)[:, None, None] // 2, 0, 255)


def _numbered(part: LocalData, known: Sequence[ClassName]) -> npt.NDArray[np.uint8]:
    values = np.zeros(256, np.uint8)
    values[255] = 255
    for value, name in enumerate(part.mask_class_names, start=1):
        values[value] = known.index(name) + 1
    assert part.masks is not None
    return values[part.masks]
