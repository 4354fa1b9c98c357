"""What a proxy remembers between models: gradients that wait, pictures, slots; and its file.

The file holds pictures and gradients: whoever reads it knows what the proxy knows, so it stays with
the proxy. A tensor `pictures` (n, c, s, s) with those of all prototypes, a tensor `waiting` with
the payloads one after the other; the metadata hold everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.scoring import next_omega
from fleetledger.methods.lga.slots import Slots
from fleetledger.methods.training.kept_files import read_kept
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.proxy import ScoredModel
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors
from fleetledger.schemas.values import ClassName, Digest

MOST_PICTURES = 10_000_000
LARGEST_FILE = 1 << 34
_MOST = 20_000
"""Of models, prototypes and payloads in a file."""


@dataclass(frozen=True, eq=False)
class Prototype:
    """A picture that the proxy found, with others from the way to it."""

    name: ClassName
    iterates: Tensor
    """(k, c, s, s) float32, 0 to 1; the last one is the picture."""
    trace: float


@dataclass(frozen=True)
class Waiting:
    """Gradients that no model was scored by yet."""

    task: int
    """The stage of the round in which their device trained."""
    payload: bytes


@dataclass(frozen=True, eq=False)
class ProxyState:
    """What a proxy remembers."""

    slots: Slots = field(default_factory=Slots)
    pool: tuple[Prototype, ...] = ()
    """Of the present task."""
    waiting: tuple[Waiting, ...] = ()
    gradients: int = 0
    """Sets of gradients that were inverted for the present task, with or without success."""
    omega_before: float = 0.0
    """At the end of the task before."""
    old_classes: int = 0
    """Classes that earlier tasks brought."""

    @property
    def omega(self) -> float:
        """Equation (12), by the classes found so far."""
        traces = [
            float(np.mean([item.trace for item in self.pool if item.name == name]))
            for name in self.names
        ]
        return next_omega(self.omega_before, self.old_classes, traces)

    @property
    def names(self) -> tuple[ClassName, ...]:
        """Classes of the present task that a picture was found of, sorted."""
        return tuple(sorted({item.name for item in self.pool}))

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> ProxyState:
        """Return the state with its pictures under the names that classes have now."""
        names = [aliases.get(item.name, item.name) for item in self.pool]
        pool = (replace(item, name=name) for item, name in zip(self.pool, names, strict=True))
        return replace(self, pool=tuple(pool))

    def write(self) -> bytes:
        """Return the state as bytes; raise `SchemaError` for one that is too large."""
        slots = self.slots
        facts = _Facts(
            task=slots.task,
            previous=slots.previous,
            current=slots.current,
            best=slots.best,
            scored=slots.scored,
            gradients=self.gradients,
            omega_before=self.omega_before,
            old_classes=self.old_classes,
            prototypes=tuple(
                _Found(name=item.name, count=len(item.iterates), trace=item.trace)
                for item in self.pool
            ),
            waiting=tuple(_Waits(task=w.task, size=len(w.payload)) for w in self.waiting),
        )
        payloads = np.frombuffer(b"".join(item.payload for item in self.waiting), np.uint8)
        empty = [torch.zeros(0, 0, 0, 0)]
        pictures = torch.cat([item.iterates for item in self.pool] or empty).float().cpu().numpy()
        tensors = {"pictures": pictures, "waiting": payloads}
        return encode_tensors(tensors, facts.model_dump(mode="json"))


def read_state(encoding: Encoding, data: bytes | None) -> ProxyState:
    """Return a state; the empty one for None. Raises `MethodError` for another file."""
    if data is None:
        return ProxyState()
    facts, tensors = read_kept(
        "proxy", data, lambda metadata: _expected(encoding, metadata), _Facts, LARGEST_FILE
    )
    pictures = torch.from_numpy(tensors["pictures"])
    waiting = tensors["waiting"].tobytes()
    counts, sizes = [item.count for item in facts.prototypes], [w.size for w in facts.waiting]
    _check("pictures", counts, len(pictures))
    _check("waiting bytes", sizes, len(waiting))
    return ProxyState(
        slots=Slots(facts.task, facts.previous, facts.current, facts.best, facts.scored),
        pool=tuple(
            Prototype(item.name, part, item.trace)
            for item, part in zip(facts.prototypes, pictures.split(counts), strict=True)
        )
        if counts
        else (),
        waiting=tuple(
            Waiting(item.task, waiting[end - item.size : end])
            for item, end in zip(facts.waiting, accumulate(sizes), strict=True)
        ),
        gradients=facts.gradients,
        omega_before=facts.omega_before,
        old_classes=facts.old_classes,
    )


class _Found(Strict):
    """A prototype whose pictures follow those of the one before."""

    name: ClassName
    count: int = Field(ge=1, le=MOST_PICTURES)
    trace: float = Field(ge=0, allow_inf_nan=False)


class _Waits(Strict):
    """A payload whose bytes follow those of the one before."""

    task: int = Field(ge=1, lt=2**31)
    size: int = Field(ge=1, le=LARGEST_FILE)


class _Facts(Strict):
    """The metadata of the file."""

    task: int = Field(ge=0, lt=2**31)
    previous: Digest | None
    current: Digest | None
    best: float | None = Field(ge=0, le=1)
    scored: tuple[ScoredModel, ...] = Field(max_length=_MOST)
    gradients: int = Field(ge=0, lt=2**31)
    omega_before: float = Field(ge=0, allow_inf_nan=False)
    old_classes: int = Field(ge=0, lt=2**31)
    prototypes: tuple[_Found, ...] = Field(max_length=_MOST)
    waiting: tuple[_Waits, ...] = Field(max_length=_MOST)


def _expected(encoding: Encoding, metadata: dict[str, object]) -> dict[str, Expected]:
    shape = (encoding.channels, encoding.side, encoding.side)
    pictures = (UpTo(MOST_PICTURES), *shape) if metadata.get("prototypes") else (0, 0, 0, 0)
    return {
        "pictures": Expected("float32", pictures),
        "waiting": Expected("uint8", (UpTo(LARGEST_FILE),)),
    }


def _check(what: str, told: Sequence[int], there: int) -> None:
    if sum(told) != there:
        raise MethodError(
            f"proxy: {there} {what}, where the file tells of {sum(told)}; remove it, and the proxy "
            "begins anew: devices' gradients of this task are lost, and it chooses no old model "
            "until those of the next one arrive"
        )
