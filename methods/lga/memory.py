"""What a device remembers between rounds: its looks, its exemplars, and what the proxy has of it.

A file with one tensor, `digests` (n, 32), the exemplars class by class with the best first; its
metadata hold everything else. The images themselves stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import Field, ValidationError

from methods.errors import MethodError
from methods.exemplar_lists import renamed_lists
from methods.lga.detection import MOST_LOOKS, Looks
from schemas.errors import SchemaError
from schemas.message import Strict, explain
from schemas.rounds import MAX_HEAD_CLASSES, Observation
from schemas.tensors import Expected, UpTo, encode_tensors, read_tensors
from schemas.values import ClassName, Digest

MOST_EXEMPLARS = 1_000_000
_LARGEST_FILE = 1 << 28
_DIGEST_BYTES = 32

Names = tuple[ClassName, ...]


class _Listed(Strict):
    """One class, whose digests follow those of the class before."""

    name: ClassName
    count: int = Field(ge=1, le=MOST_EXEMPLARS)


class _Facts(Strict):
    """The metadata of the file."""

    round: int = Field(ge=0, lt=2**31)
    observation: Observation | None
    tasks: int = Field(ge=0, lt=2**31)
    stage: int = Field(ge=0, lt=2**31)
    rows: Names = Field(max_length=MAX_HEAD_CLASSES)
    history: tuple[float, ...] = Field(max_length=MOST_LOOKS)
    entered: bool
    withheld: bool = False
    sent: Names = Field(max_length=MAX_HEAD_CLASSES)
    classes: tuple[_Listed, ...] = Field(max_length=MAX_HEAD_CLASSES)


@dataclass(frozen=True)
class Memory:
    """What is known before the first round is nothing."""

    round: int = 0
    """The round of the last look."""
    observation: Observation | None = None
    """What that look found."""
    looks: Looks = field(default_factory=Looks)
    entered: bool = False
    """Whether the device noticed a task in which it has not trained yet."""
    withheld: bool = False
    """Whether gradients of the task are due that the owner did not let go."""
    sent: Names = ()
    """Classes whose gradients went to the proxy, sorted."""
    exemplars: Mapping[ClassName, tuple[Digest, ...]] = field(default_factory=dict)
    """Of classes of earlier tasks; the best come first."""

    @property
    def stored(self) -> int:
        """Number of exemplars."""
        return sum(map(len, self.exemplars.values()))

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> Memory:
        """Return the memory under the names that classes have now."""
        rows = tuple(dict.fromkeys(aliases.get(name, name) for name in self.looks.rows))
        return replace(
            self,
            looks=replace(self.looks, rows=rows),
            sent=tuple(sorted({aliases.get(name, name) for name in self.sent})),
            exemplars=renamed_lists(self.exemplars, aliases),
        )

    def kept(self, is_there: Callable[[ClassName, Digest], bool]) -> Memory:
        """Return the memory without exemplars whose image is gone or has another class now."""
        lists = {
            name: tuple(digest for digest in digests if is_there(name, digest))
            for name, digests in self.exemplars.items()
        }
        return replace(self, exemplars={name: item for name, item in lists.items() if item})

    def with_exemplars(
        self, chosen: Mapping[ClassName, tuple[Digest, ...]], per_class: int
    ) -> Memory:
        """Return the memory with the lists of more classes, all of them cut to `per_class`."""
        lists = {name: item[:per_class] for name, item in {**self.exemplars, **chosen}.items()}
        return replace(self, exemplars={name: item for name, item in lists.items() if item})

    def write(self) -> bytes:
        """Return the memory as bytes."""
        lists, looks = sorted(self.exemplars.items()), self.looks
        facts = _Facts(
            round=self.round,
            observation=self.observation,
            tasks=looks.tasks,
            stage=looks.stage,
            rows=looks.rows,
            history=looks.history,
            entered=self.entered,
            withheld=self.withheld,
            sent=self.sent,
            classes=tuple(_Listed(name=name, count=len(digests)) for name, digests in lists),
        )
        data = b"".join(bytes.fromhex(digest) for _, digests in lists for digest in digests)
        tensor = np.frombuffer(data, np.uint8).reshape(-1, _DIGEST_BYTES)
        return encode_tensors({"digests": tensor}, facts.model_dump(mode="json"), compress=False)


def read_memory(data: bytes | None) -> Memory:
    """Return a memory; the empty one for None. Raises `MethodError` for another file."""
    if data is None:
        return Memory()
    expected = {"digests": Expected("uint8", (UpTo(MOST_EXEMPLARS), _DIGEST_BYTES))}
    try:
        file = read_tensors(data, expected, _LARGEST_FILE)
        facts = _Facts.model_validate(file.metadata)
    except SchemaError as error:
        raise MethodError(f"memory: {error}") from error
    except ValidationError as error:
        raise MethodError(f"memory: {explain(error)}") from error
    digests = [Digest(bytes(row).hex()) for row in file.tensors["digests"]]
    total = sum(listed.count for listed in facts.classes)
    if len(digests) != total or len({listed.name for listed in facts.classes}) < len(facts.classes):
        raise MethodError(
            f"memory: {len(digests)} exemplars, where its {len(facts.classes)} classes, each named "
            f"once, have {total}; remove the file, and the device begins anew"
        )
    places = iter(digests)
    return Memory(
        round=facts.round,
        observation=facts.observation,
        looks=Looks(facts.tasks, facts.stage, facts.rows, facts.history),
        entered=facts.entered,
        withheld=facts.withheld,
        sent=facts.sent,
        exemplars={
            listed.name: tuple(next(places) for _ in range(listed.count))
            for listed in facts.classes
        },
    )
