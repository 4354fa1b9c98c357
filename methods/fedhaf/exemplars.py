"""Which samples a device remembers, and what it trains on: new ones and exemplars.

    (6)  exemplars of class c: the samples with the smallest || phi(x) - mu_c ||, where mu_c is the
         mean of the device's features of c; ceil(rho n) of n samples

With `exemplar_choice = "random"` they are those with the smallest digests: an order that says
nothing of what is on an image, and stays as it is when others come.

A class of the stage has its exemplars chosen again with every training, so the last choice of a
stage is the one that stays. A class of an earlier stage keeps them; where none is remembered (the
device was not asked in that stage, or has joined since) they are chosen from the samples that are
there. What became of an image since decides:

| the image of an exemplar is | remembered as image | remembered as features |
| --- | --- | --- |
| there, under its class | stays | stays |
| there, under another class | is forgotten | is forgotten |
| gone | is forgotten | stays |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.exemplars import exemplar_count, nearest_to_mean, shrunk
from fleetledger.methods.fedhaf.memory import Exemplars, Memory
from fleetledger.methods.fedhaf.settings import FedHafSettings
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.met_samples import met_after, new_rows
from fleetledger.schemas.values import ClassName, Digest

if TYPE_CHECKING:  # which classes are remembered is decided without torch
    from fleetledger.learning.training.resident import SampleArray

Classes = Mapping[ClassName, Exemplars]


@dataclass(frozen=True, eq=False)
class Samples:
    """What is trained on: the new samples as they come, then exemplars class by class."""

    inputs: SampleArray
    """(N, d), float32."""
    class_names: tuple[ClassName, ...]
    old: npt.NDArray[np.float32]
    """(N,): 1 for an exemplar, 0 for a new sample."""

    def __len__(self) -> int:
        return len(self.class_names)


def remembered(
    settings: FedHafSettings, instruction: FitInstruction, data: LocalData, memory: Memory
) -> tuple[Memory, Memory]:
    """Return the memory as the samples of now leave it: exemplars in use, and all of them.

    Those in use are of classes of earlier stages, and of such that return in the order's. Each kind
    has at most `exemplar_cap`.
    """
    choose = _Choosing(settings, data)
    memory = memory.renamed(instruction.round.aliases)
    known, rows = memory.classes, new_rows(instruction, data, memory.met)
    new = set(instruction.stage_class_names)
    older = {
        name: choose.older(name, known.get(name))
        for name in instruction.round.class_names
        if name not in new
    }
    here = {name: [row for row in rows if data.class_names[row] == name] for name in new}
    newer, stage = dict[ClassName, Exemplars](), instruction.stage
    for name in instruction.stage_class_names:
        exemplars = known.get(name)
        if exemplars is not None:
            of = memory.met.stages([name] * len(exemplars), exemplars.digests)
            before = exemplars.chosen(row for row, met in enumerate(of) if 0 < met < stage)
            if len(before):
                older[name] = choose.older(name, before)
        newer[name] = choose.newer(name, exemplars, here[name], older.get(name))
    in_use = within_cap(older, settings.exemplar_cap)
    candidates = within_cap(newer, settings.exemplar_cap)
    met = met_after(instruction, data, memory.met, rows)
    return (
        Memory(stage, in_use, memory.met),
        Memory(stage, {**in_use, **candidates}, met),
    )


def samples_of(instruction: FitInstruction, data: LocalData, in_use: Memory) -> Samples:
    """Return the new samples, and the exemplars."""
    rows = {digest: row for row, digest in enumerate(data.digests)}
    taken = new_rows(instruction, data, in_use.met)
    names = [data.class_names[row] for row in taken]
    for name, exemplars in sorted(in_use.classes.items()):
        names += [name] * len(exemplars)
    old = np.zeros(len(names), np.float32)
    old[len(taken) :] = 1
    return Samples(_inputs(data, taken, rows, in_use), tuple(names), old)


def _inputs(
    data: LocalData, taken: list[int], rows: Mapping[Digest, int], in_use: Memory
) -> SampleArray:
    """Return the features of the new samples, and those of the exemplars.

    What is remembered of a sample that is still there has been made equal to it; so samples that
    lie on an accelerator are taken there, unless one is gone.
    """
    lists = [exemplars for _, exemplars in sorted(in_use.classes.items())]
    digests = [digest for exemplars in lists for digest in exemplars.digests]
    if not isinstance(data.inputs, np.ndarray) and rows.keys() >= set(digests):
        return data.inputs.of([*taken, *(rows[digest] for digest in digests)])
    parts = [_features(data, taken)]
    for exemplars in lists:
        features = exemplars.features
        if features is None:
            features = _features(data, [rows[digest] for digest in exemplars.digests])
        parts.append(features)
    return np.concatenate(parts)


def within_cap(classes: Classes, cap: int | None) -> dict[ClassName, Exemplars]:
    """Return the lists cut to `cap` in all, in proportion to what the ratio asked for.

    Classes without an exemplar are left out.
    """
    lists = {name: item for name, item in sorted(classes.items()) if len(item)}
    if cap is None or sum(map(len, lists.values())) <= cap:
        return lists
    shares = shrunk({name: item.wanted for name, item in lists.items()}, cap)
    cut = {name: item.chosen(range(min(len(item), shares[name]))) for name, item in lists.items()}
    return {name: item for name, item in cut.items() if len(item)}


class _Choosing:
    """The exemplars of classes, by a device's samples of now."""

    def __init__(self, settings: FedHafSettings, data: LocalData) -> None:
        self._settings, self._data = settings, data
        self._rows: dict[ClassName, list[int]] = defaultdict(list)
        for row, name in enumerate(data.class_names):
            self._rows[name].append(row)
        self._row_of = {digest: row for row, digest in enumerate(data.digests)}

    def newer(
        self,
        name: ClassName,
        known: Exemplars | None,
        rows: list[int],
        before: Exemplars | None,
    ) -> Exemplars:
        """Return those of a class of the stage: chosen anew where the class has new samples.

        `rows` are these; those of `before` may be chosen, too.
        """
        if not rows:
            return self._left(name, known)
        again = () if before is None else before.digests
        there = [self._row_of[digest] for digest in again if digest in self._row_of]
        return self._chosen(sorted({*rows, *there}))

    def older(self, name: ClassName, known: Exemplars | None) -> Exemplars:
        """Return those of a class of an earlier stage: what is left, or else chosen."""
        left = self._left(name, known)
        rows = self._rows[name]
        return left if len(left) or not rows else self._chosen(rows)

    def _chosen(self, rows: list[int]) -> Exemplars:
        ratio = self._settings.exemplar_ratio
        wanted = exemplar_count(len(rows), ratio) if ratio else 0
        if self._settings.exemplar_choice == "random":
            digests = self._data.digests
            return self._taken(sorted(rows, key=lambda row: digests[row])[:wanted], wanted)
        chosen = nearest_to_mean(_features(self._data, rows), wanted)
        return self._taken([rows[index] for index in chosen], wanted)

    def _left(self, name: ClassName, known: Exemplars | None) -> Exemplars:
        """Return what is left of a list."""
        if known is None:
            return Exemplars(())
        there = [
            place for place, digest in enumerate(known.digests) if self._is(digest, name, known)
        ]
        left = known.chosen(there)
        if self._data.exemplars_as == "images" or known.features is None:
            rows = [self._row_of[digest] for digest in left.digests]
            return self._taken(rows, known.wanted)
        return self._refreshed(left)

    def _refreshed(self, left: Exemplars) -> Exemplars:
        """Return a list with the features of now, wherever the image is still there."""
        rows = [self._row_of.get(digest) for digest in left.digests]
        features = np.array(left.features)
        for place, row in enumerate(rows):
            if row is not None:
                features[place] = self._data.inputs[row]
        return Exemplars(left.digests, features, left.wanted)

    def _is(self, digest: Digest, name: ClassName, known: Exemplars) -> bool:
        """Whether an exemplar can still be trained on as one of the class."""
        row = self._row_of.get(digest)
        if row is not None:
            return self._data.class_names[row] == name
        return self._data.exemplars_as == "features" and known.features is not None

    def _taken(self, rows: list[int], wanted: int) -> Exemplars:
        digests = tuple(self._data.digests[row] for row in rows)
        as_features = self._data.exemplars_as == "features"
        return Exemplars(digests, _features(self._data, rows) if as_features else None, wanted)


def _features(data: LocalData, rows: list[int]) -> npt.NDArray[np.float32]:
    """Return the features (n, d) of some rows."""
    return np.asarray(data.inputs[rows], np.float32)
