"""What tests of methods that train have in common: data, questions, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from methods.training_half import Asked, Given, LocalData
from schemas.values import ClassName

Arrays = dict[str, npt.NDArray[Any]]


def joined(*parts: LocalData) -> LocalData:
    return LocalData(
        np.concatenate([part.inputs for part in parts]),
        tuple(name for part in parts for name in part.class_names),
        tuple(digest for part in parts for digest in part.digests),
        parts[0].exemplars_as,
    )


def only(data: LocalData, rows: Sequence[int]) -> LocalData:
    """The data without the samples of other rows."""
    return LocalData(
        data.inputs[list(rows)],
        tuple(data.class_names[row] for row in rows),
        tuple(data.digests[row] for row in rows),
        data.exemplars_as,
    )


def relabelled(data: LocalData, names: Mapping[ClassName, ClassName]) -> LocalData:
    """The same samples, some of them under other names."""
    labels = tuple(names.get(name, name) for name in data.class_names)
    return LocalData(data.inputs, labels, data.digests, data.exemplars_as)


def asked_of(
    weights: bytes,
    names: tuple[ClassName, ...],
    rows: tuple[ClassName, ...] = (),
    **changes: Any,
) -> Asked:
    """The first of two rounds for classes `names`; the weights' head has `rows`."""
    values: dict[str, Any] = {
        "phase": "train",
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "weights": weights,
        "weights_class_names": rows,
        "class_names": names,
    }
    return Asked(**(values | changes))


def shaken(arrays: Mapping[str, npt.NDArray[Any]], seed: int, far: float) -> Arrays:
    """Weights as a device might have trained them; running variances stay above zero."""
    random = np.random.default_rng(seed)
    return {
        name: np.abs(array + far * random.normal(size=array.shape)).astype(np.float32)
        for name, array in arrays.items()
    }


def given(payload: bytes, count: int = 1) -> Given:
    return Given(count, lambda: payload)
