"""What a site remembers between phases: its anchors by digest, and its model after DID.

A file of tensors: `digests` (n, 32), the anchors class by class with the best first, and between
`train` and `distil` the model [theta_m]_0, marked with the round that it is of. The images
themselves stay where they are: which of them are new to a session, and which are anchors, is found
here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.network import Network
from fleetledger.learning.numerics.herding import herd
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.exemplar_lists import renamed_lists
from fleetledger.methods.training.kept_files import (
    DIGEST_ROWS,
    DIGESTS,
    Listed,
    Lists,
    listed,
    lists_of,
    read_kept,
)
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.tensors import Expected, encode_tensors
from fleetledger.schemas.values import ClassName, Digest

Arrays = Mapping[str, npt.NDArray[Any]]
Features = Callable[[list[int]], npt.NDArray[np.float32]]
"""From rows of the local data to their features (n, d) under a model."""

_LARGEST_FILE = 1 << 31
_TRAINED = "trained/"


class Mark(Strict):
    """Which round a model after DID is of, and what its answer weighs."""

    stage: int = Field(ge=1, lt=2**31)
    round_of_stage: int = Field(ge=1, lt=2**31)
    """Of the phase `train`; `distil` is the next."""
    began: Digest
    """Of the weights that the round began with."""
    rows: int = Field(ge=1, le=MAX_CLASSES)
    """Of the head."""
    samples: dict[ClassName, int]
    """New images by class: N_m."""


class _Facts(Strict):
    """The metadata of the file."""

    classes: tuple[Listed, ...] = Field(default=(), max_length=MAX_CLASSES)
    mark: Mark | None = None


@dataclass(frozen=True, eq=False)
class AfterDid:
    """A site's model after DID, before DCD: [theta_m]_0."""

    mark: Mark
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class Memory:
    """What is known before the first round is nothing."""

    anchors: Lists = field(default_factory=dict)
    """By class; the best come first."""
    after_did: AfterDid | None = None

    @property
    def stored(self) -> int:
        """Number of anchors."""
        return sum(map(len, self.anchors.values()))

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> Memory:
        """Return the memory under the names that classes have now."""
        return replace(self, anchors=renamed_lists(self.anchors, aliases))

    def present(self, data: LocalData) -> Memory:
        """Return the memory without anchors whose image is gone or has another class now."""
        places = _places(data)
        return self.with_anchors(
            {
                name: tuple(digest for digest in digests if (name, digest) in places)
                for name, digests in self.anchors.items()
            }
        )

    def with_anchors(self, chosen: Lists) -> Memory:
        """Return the memory with these lists in the place of those of the same classes."""
        lists = {**self.anchors, **chosen}
        return replace(self, anchors={name: item for name, item in lists.items() if item})

    def write(self) -> bytes:
        """Return the memory as bytes."""
        classes, rows = listed(self.anchors)
        tensors: dict[str, npt.NDArray[Any]] = {DIGESTS: rows}
        after = self.after_did
        if after is not None:
            tensors |= {_TRAINED + name: array for name, array in after.arrays.items()}
        facts = _Facts(
            classes=classes,
            mark=None if after is None else after.mark,
        )
        return encode_tensors(tensors, facts.model_dump(mode="json"))


def rows_by_class(data: LocalData) -> dict[ClassName, list[int]]:
    """Return the rows of each class, in the order of the data."""
    rows: dict[ClassName, list[int]] = defaultdict(list)
    for row, name in enumerate(data.class_names):
        rows[name].append(row)
    return dict(rows)


def new_rows(instruction: FitInstruction, data: LocalData) -> list[int]:
    """Return the rows of D_m^(t): images of the session's classes."""
    new = set(instruction.stage_class_names)
    return [row for row, name in enumerate(data.class_names) if name in new]


def anchor_rows(instruction: FitInstruction, data: LocalData, memory: Memory) -> list[int]:
    """Return the rows of A_m^(t-1): anchors of classes that the head had before the session."""
    new, known = set(instruction.stage_class_names), set(instruction.round.class_names)
    places = _places(data)
    return [
        places[name, digest]
        for name, digests in sorted(memory.anchors.items())
        if name in known and name not in new
        for digest in digests
        if (name, digest) in places
    ]


def missing_anchors(
    instruction: FitInstruction, data: LocalData, memory: Memory
) -> list[ClassName]:
    """Return old classes of which there are images and no anchors.

    So it is where a base session was trained elsewhere, and with a site that joins late.
    """
    old = set(instruction.round.class_names) - set(instruction.stage_class_names)
    return sorted(old.intersection(data.class_names) - set(memory.anchors))


def herded(data: LocalData, names: Iterable[ClassName], features: Features, count: int) -> Lists:
    """Return anchors of classes by (2): each next brings the mean nearest to the class's.

    Features are taken as they are. Raises `MethodError` where they are not finite.
    """
    rows, lists = rows_by_class(data), {}
    for name in names:
        own = rows.get(name, [])
        if own and count:
            try:
                chosen = herd(features(own), count, normalised=False)
            except LearningError as error:
                raise MethodError(f"anchors: {error}") from error
            lists[name] = tuple(data.digests[own[place]] for place in chosen)
    return lists


def read_memory(data: bytes | None, network: Network) -> Memory:
    """Return a memory; the empty one for None. Raises `MethodError` for another file."""
    if data is None:
        return Memory()
    facts, tensors = read_kept(
        "memory", data, lambda metadata: _expected(network, metadata), _Facts, _LARGEST_FILE
    )
    anchors = lists_of("anchors", facts.classes, tensors[DIGESTS])
    return Memory(anchors, _after_did(facts.mark, tensors))


def _after_did(mark: Mark | None, tensors: Arrays) -> AfterDid | None:
    if mark is None:
        return None
    arrays = {
        name.removeprefix(_TRAINED): array
        for name, array in tensors.items()
        if name.startswith(_TRAINED)
    }
    return AfterDid(mark, arrays)


def _expected(network: Network, metadata: Mapping[str, Any]) -> dict[str, Expected]:
    expected = {DIGESTS: DIGEST_ROWS}
    mark = metadata.get("mark")
    if mark is not None:
        shapes = network.shapes(Mark.model_validate(mark).rows)
        expected |= {_TRAINED + name: Expected("float32", shape) for name, shape in shapes.items()}
    return expected


def _places(data: LocalData) -> dict[tuple[ClassName, Digest], int]:
    named = zip(data.class_names, data.digests, strict=True)
    return {(name, digest): row for row, (name, digest) in enumerate(named)}
