"""What a device remembers between rounds: its exemplars by digest, and models of its own.

A file of tensors, whose metadata name the stage, its classes, and the exemplars of every class of
earlier stages. The images themselves stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt
from pydantic import Field

from fleetledger.learning.networks.network import Network
from fleetledger.methods.training.exemplar_lists import renamed_lists
from fleetledger.methods.training.kept_files import Listed, read_kept
from fleetledger.methods.training.met_samples import MET, MET_ROWS, MetSamples, met_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.tensors import Expected, encode_tensors
from fleetledger.schemas.values import ClassName, Digest

Arrays = Mapping[str, npt.NDArray[Any]]

_LARGEST_FILE = 1 << 31
_LATEST, _PAST = "latest/", "past/"


class _Facts(Strict):
    """The metadata of the file."""

    stage: int = 0
    task: tuple[ClassName, ...] = ()
    exemplars: dict[ClassName, tuple[Digest, ...]] = Field(default_factory=dict)
    latest_class_names: tuple[ClassName, ...] = ()
    past_class_names: tuple[ClassName, ...] = ()
    met: tuple[Listed, ...] = ()


@dataclass(frozen=True)
class OwnModel:
    """A model that this device has trained: its tensors, and the rows of its head."""

    arrays: Arrays
    class_names: tuple[ClassName, ...]


@dataclass(frozen=True)
class Memory:
    """What is known before the first round is nothing: stage 0."""

    stage: int = 0
    """The stage that was trained last."""
    task: tuple[ClassName, ...] = ()
    """Classes that this device trained in it."""
    exemplars: Mapping[ClassName, tuple[Digest, ...]] = field(default_factory=dict)
    """Of classes of earlier stages; the best come first."""
    latest: OwnModel | None = None
    """What this device trained last."""
    past: OwnModel | None = None
    """What it trained last in the stage before."""
    met: MetSamples = field(default_factory=MetSamples)
    """Samples that were trained as new ones."""

    @property
    def stored(self) -> int:
        """Number of exemplars."""
        return sum(len(digests) for digests in self.exemplars.values())

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> Memory:
        """Return the memory under the names that classes have now; models keep those of theirs."""
        return replace(
            self,
            task=tuple(sorted({aliases.get(name, name) for name in self.task})),
            exemplars=renamed_lists(self.exemplars, aliases),
            met=self.met.renamed(aliases),
        )

    def with_exemplars(self, new: Mapping[ClassName, tuple[Digest, ...]], per_class: int) -> Memory:
        """Return the memory with the lists of more classes; all lists are cut to `per_class`."""
        lists = {**self.exemplars, **new}
        return replace(self, exemplars={name: item[:per_class] for name, item in lists.items()})

    def write(self) -> bytes:
        """Return the memory as bytes."""
        met, rows = self.met.written()
        facts = _Facts(
            stage=self.stage,
            task=self.task,
            exemplars=dict(self.exemplars),
            latest_class_names=self.latest.class_names if self.latest else (),
            past_class_names=self.past.class_names if self.past else (),
            met=met,
        )
        tensors = {
            prefix + name: array
            for prefix, model in ((_LATEST, self.latest), (_PAST, self.past))
            if model is not None
            for name, array in model.arrays.items()
        }
        return encode_tensors({**tensors, MET: rows}, facts.model_dump(mode="json"))


def read_memory(data: bytes | None, network: Network) -> Memory:
    """Return a memory; the empty one for None. Raises `MethodError` for another file."""
    if data is None:
        return Memory()
    facts, tensors = read_kept(
        "memory", data, lambda metadata: _expected(network, metadata), _Facts, _LARGEST_FILE
    )
    return Memory(
        stage=facts.stage,
        task=facts.task,
        exemplars=facts.exemplars,
        latest=_model(tensors, _LATEST, facts.latest_class_names),
        past=_model(tensors, _PAST, facts.past_class_names),
        met=met_of(facts.met, tensors[MET]),
    )


def _model(tensors: Arrays, prefix: str, names: tuple[ClassName, ...]) -> OwnModel | None:
    found = {
        name.removeprefix(prefix): array
        for name, array in tensors.items()
        if name.startswith(prefix)
    }
    return OwnModel(found, names) if found else None


def _expected(network: Network, metadata: Mapping[str, Any]) -> dict[str, Expected]:
    expected = {MET: MET_ROWS}
    for prefix, names in ((_LATEST, "latest_class_names"), (_PAST, "past_class_names")):
        rows = len(metadata.get(names, ()))
        if rows:
            shapes = network.shapes(rows)
            expected |= {prefix + name: Expected("float32", shapes[name]) for name in shapes}
    return expected
