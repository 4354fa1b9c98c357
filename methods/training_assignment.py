"""The base of what both halves of a method that trains networks are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from typing_extensions import Self

from learning.errors import LearningError
from learning.networks.head import HeadKind
from learning.networks.registry import build_network
from methods.errors import MethodError
from schemas.message import Message, explain
from schemas.rounds import TRAIN


class TrainingAssignment(Message):
    """The phases of a stage and the answers of models, where a method has no others.

    A method subclasses it with its settings, the shape of a sample and a `kind`.
    """

    @property
    def opening_phases(self) -> tuple[str, ...]:
        """Phases before a stage's rounds: none."""
        return ()

    @property
    def round_phases(self) -> tuple[str, ...]:
        """Phases of a round: devices train, and that is all."""
        return (TRAIN,)

    @property
    def closing_phases(self) -> tuple[str, ...]:
        """Phases after a stage's rounds: none."""
        return ()

    @property
    def logit_scale(self) -> float:
        """Networks learn with a plain softmax."""
        return 1.0

    @classmethod
    def told(cls, body: Mapping[str, Any]) -> Self:
        """Return an assignment from JSON values; raise `MethodError` naming field and value."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise MethodError(f"assignment: {explain(error)}") from error


def refuse_features(body: Mapping[str, Any], method: str) -> None:
    """Raise `MethodError` where a method that trains whole networks is to train on features."""
    shape = body.get("input_shape", ())
    if isinstance(shape, list | tuple) and len(shape) == 1:
        raise MethodError(
            f"input_shape: {tuple(shape)} are the features of a frozen backbone, and {method} "
            "trains whole networks on pictures; import the network without one"
        )


def check_whole_network(
    name: str, shape: tuple[int, ...], method: str, head: HeadKind = "linear"
) -> None:
    """Raise `ValueError` unless the network takes such pictures and is trained as a whole."""
    try:
        network = build_network(name, shape, head)
    except LearningError as error:
        raise ValueError(
            f"settings.network: {name!r} cannot take pictures of shape {shape}: {error}"
        ) from error
    if network.body.base_plan():
        raise ValueError(
            f"settings.network: of {name!r} only a part is trained, and {method} trains whole "
            "networks; give another one"
        )
