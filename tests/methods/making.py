"""What tests of methods that train have in common: data, questions, answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.methods.training.exchange import (
    CountedUpdate,
    FitInstruction,
    LocalData,
    RoundConfig,
)
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName
from fleetledger.schemas.zstd_frames import framed
from tests.schemas.examples import OFFER

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


def config_of(
    weights: bytes,
    names: tuple[ClassName, ...],
    rows: tuple[ClassName, ...] = (),
    **changes: Any,
) -> RoundConfig:
    """The first of two rounds for classes `names`; the weights' head has `rows`."""
    values: dict[str, Any] = {
        "phase": "train",
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "weights": weights,
        "weights_class_names": rows,
        "class_names": names,
    }
    return RoundConfig(**(values | changes))


def told_of(question: RoundConfig, number: int, **changes: Any) -> RoundOrder:
    """What a device is told of the round that the coordinator asks for."""
    return RoundOrder(
        number=number,
        phase=question.phase,
        round_of_stage=question.round_of_stage,
        rounds_of_stage=question.rounds_of_stage,
        weights=OFFER,
        weights_class_names=question.weights_class_names,
        class_names=question.class_names,
        seed=5,
        deadline_seconds=60.0,
        **changes,
    )


def order(
    question: RoundConfig,
    stages: Sequence[int],
    number: int = 1,
    device_name: str = "dev-1",
    **changes: Any,
) -> FitInstruction:
    """What a device is told of a round; `stages` are those of the question's classes."""
    told = told_of(question, number, **changes)
    stage = max(stages)
    new = tuple(
        name for name, own in zip(question.class_names, stages, strict=True) if own == stage
    )
    return FitInstruction(
        stage, new, told, question.weights, question.extras, device_name, tuple(stages)
    )


def shaken(arrays: Mapping[str, npt.NDArray[Any]], seed: int, far: float) -> Arrays:
    """Weights as a device might have trained them; running variances stay above zero."""
    random = np.random.default_rng(seed)
    return {
        name: np.abs(array + far * random.normal(size=array.shape)).astype(np.float32)
        for name, array in arrays.items()
    }


def still(first: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """What a device answers to a round whose weights are zero and stay so: integers."""
    return {name: np.zeros(array.shape, np.int32) for name, array in first.items()}


def no_answers(first: Mapping[str, npt.NDArray[Any]], without: str) -> Iterator[tuple[bytes, str]]:
    """Payloads that answer no round that begins with `first`, and what a refusal has to name."""
    integers = still(first)
    variances = {name: array - 1 for name, array in integers.items() if "running_var" in name}
    rows = np.zeros((5, integers["head.weight"].shape[1]), np.int32)
    for tensors, named in (
        ({name: array for name, array in integers.items() if name != without}, without),
        (integers | {"strange": np.zeros(1, np.int32)}, "strange"),
        (integers | {"head.weight": rows}, "head.weight"),
        ({name: array.astype(np.float32) for name, array in integers.items()}, "float32"),
        (integers | variances, "variance"),
    ):
        yield encode_tensors(tensors), re.escape(named)
    yield b"no tensors at all", "answer"
    yield encode_tensors(integers) + b"more", "answer"


def given(payload: bytes, count: int = 1) -> CountedUpdate:
    return CountedUpdate(count, lambda: payload)


def as_frame(body: bytes) -> bytes:
    """Return a payload as devices gave it before version 2 of the protocol."""
    return framed(body) or body
