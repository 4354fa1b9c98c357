"""Group sums of the fleet, kept as they came, and the Gram matrix estimated from them.

The estimate is no sum over devices: it needs every group's own row (section 5 of the paper). So
rows are kept, those of a part are taken out with it, and the estimate is made anew from what is
held: stage by stage, class by class, rows in the order of their digests. It therefore depends on
which rows are held and on nothing else, and the digest is over the rows, which are integers.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.estimated_gram import ClassGroups, estimated_gram
from fleetledger.methods.errors import MethodError
from fleetledger.methods.stsa.group_sums import GroupSums
from fleetledger.methods.stsa.settings import StsaSettings
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName

Floats = npt.NDArray[np.float64]

_SMALL = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class KeptPart:
    """Rows of one part: class (R,), samples (R,) and sum of h (R x M, int32 where they fit)."""

    stage: int
    groups: int
    class_names: tuple[ClassName, ...]
    counts: npt.NDArray[np.int64]
    values: npt.NDArray[np.int32] | npt.NDArray[np.int64]
    exponent: int
    dealer: str = ""
    """What stands for the device, where all its parts of the stage share its groups."""
    row_groups: npt.NDArray[np.int64] | None = None
    """The group of each row (R,), where they do."""

    @classmethod
    def of(cls, stage: int, class_names: tuple[ClassName, ...], groups: GroupSums) -> KeptPart:
        """Return the rows of a part that was made in `stage`."""
        values = groups.sums.values
        small = values.astype(np.int32) if groups.sums.largest <= _SMALL else values
        rows = tuple(
            class_names[index] for index in np.repeat(range(len(class_names)), groups.per_class)
        )
        return cls(
            stage,
            groups.groups,
            rows,
            groups.counts,
            small,
            groups.sums.exponent,
            groups.dealer,
            groups.row_groups,
        )

    @cached_property
    def row_digests(self) -> tuple[bytes, ...]:
        """SHA-256 of each row: samples, step, group where it is told, and integers.

        Stage and class are not in it.
        """
        told = [""] * len(self.counts)
        if self.row_groups is not None:
            told = [f" {self.dealer} {group}" for group in self.row_groups.tolist()]
        return tuple(
            hashlib.sha256(
                f"{count} {self.exponent}{group}\n".encode()
                + row.astype("<i8", copy=False).tobytes()
            ).digest()
            for count, group, row in zip(self.counts.tolist(), told, self.values, strict=True)
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the whole part."""
        rows = [
            [name, digest.hex()]
            for name, digest in zip(self.class_names, self.row_digests, strict=True)
        ]
        told: dict[str, object] = {"stage": self.stage, "groups": self.groups, "rows": rows}
        if self.row_groups is not None:
            told |= {"dealer": self.dealer, "row_groups": self.row_groups.tolist()}
        return hashlib.sha256(canonical_json(told)).digest()

    def renamed(self, names: Mapping[ClassName, ClassName]) -> KeptPart:
        """Return the part with classes renamed by `names`; those left out keep theirs."""
        rows = tuple(names.get(name, name) for name in self.class_names)
        if rows == self.class_names:
            return self  # with the digests that were taken before
        return replace(self, class_names=rows)


Row = tuple[bytes, KeptPart, int]
"""A row: its digest, its part, and where it lies there."""


@dataclass(frozen=True, eq=False)
class KeptGroups:
    """Parts by digest, each with how often it is held: equal data may come from two devices."""

    parts: Mapping[bytes, tuple[KeptPart, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, part: KeptPart) -> KeptGroups:
        """Return the rows of one part."""
        return cls({part.digest: (part, 1)})

    def __bool__(self) -> bool:
        """Whether there are any rows."""
        return bool(self.parts)

    def __add__(self, other: KeptGroups) -> KeptGroups:
        """Return the rows of both."""
        return self._combined(other, 1)

    def __sub__(self, other: KeptGroups) -> KeptGroups:
        """Return the rows without the other's; raise `MethodError` if those were not added."""
        return self._combined(other, -1)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> KeptGroups:
        """Return the rows with classes renamed; rows of classes that get one name stay rows."""
        result: dict[bytes, tuple[KeptPart, int]] = {}
        for part, times in self.parts.values():
            _put(result, part.renamed(names), times)
        return KeptGroups(result)

    def described(self) -> dict[str, object]:
        """Return what the digest's header says: groups per stage, rows per stage and class."""
        return {
            "groups": {str(stage): self._groups(stage) for stage in self._stages()},
            "rows": {
                str(stage): {name: len(rows) for name, rows in sorted(self._rows(stage).items())}
                for stage in self._stages()
            },
        }

    def row_digests(self) -> Iterator[bytes]:
        """Yield the digests of all rows: by stage, by class name, then by digest."""
        for stage in self._stages():
            for _, rows in sorted(self._rows(stage).items()):
                yield from (digest for digest, _, _ in rows)

    def lone_holders(self) -> tuple[tuple[int, ClassName], ...]:
        """Return stage and class wherever a single group holds a class."""
        return tuple(
            (stage, name)
            for stage in self._stages()
            for name, rows in sorted(self._rows(stage).items())
            if len(_by_group(rows)) == 1
        )

    def estimated_gram(self, columns: int, settings: StsaSettings) -> Floats:
        """Return the estimate (M x M, float64), the sum over stages: equations (9) and (10)."""
        result = np.zeros((columns, columns))
        for stage in self._stages():
            classes = [_gathered(rows) for _, rows in sorted(self._rows(stage).items())]
            groups = max(self._groups(stage), settings.all_clients * settings.groups)
            result += estimated_gram(classes, columns, settings.estimator_rule(groups))
        return result

    def _combined(self, other: KeptGroups, sign: int) -> KeptGroups:
        result = dict(self.parts)
        for part, times in other.parts.values():
            _put(result, part, sign * times)
        return KeptGroups(result)

    def _stages(self) -> list[int]:
        return sorted({part.stage for part, _ in self.parts.values()})

    def _groups(self, stage: int) -> int:
        """Return how many groups there are in a stage, whatever classes they hold.

        The parts of one device share theirs, where they say so.
        """
        held = [(part, times) for part, times in self.parts.values() if part.stage == stage]
        shared = {part.dealer: part.groups for part, _ in held if part.dealer}
        return sum(shared.values()) + sum(p.groups * times for p, times in held if not p.dealer)

    def _rows(self, stage: int) -> dict[ClassName, list[Row]]:
        """Return the rows of a stage by class, in the order of their digests."""
        found: dict[ClassName, list[Row]] = defaultdict(list)
        for part, times in self.parts.values():
            if part.stage == stage:
                for index, (name, digest) in enumerate(
                    zip(part.class_names, part.row_digests, strict=True)
                ):
                    found[name] += [(digest, part, index)] * times
        for rows in found.values():
            rows.sort(key=lambda row: row[0])
        return found


def _put(parts: dict[bytes, tuple[KeptPart, int]], part: KeptPart, times: int) -> None:
    """Change how often a part is held; one that is held no more is taken out."""
    total = times + parts.get(part.digest, (part, 0))[1]
    if total < 0:
        raise MethodError(
            f"groups of stage {part.stage}: what is taken out was not added; subtract whole "
            "contributions only"
        )
    parts[part.digest] = (part, total)
    if total == 0:
        del parts[part.digest]


def _by_group(rows: list[Row]) -> list[list[Row]]:
    """Return a class's rows group by group: of one device's parts those of the same group."""
    found: dict[object, list[Row]] = defaultdict(list)
    for place, row in enumerate(rows):
        _, part, index = row
        groups = part.row_groups
        found[place if groups is None else (part.dealer, int(groups[index]))].append(row)
    return list(found.values())


def _gathered(rows: list[Row]) -> ClassGroups:
    """Return one class's groups as numbers."""
    groups = _by_group(rows)
    sums = [np.sum([_sum_of(row) for row in group], axis=0) for group in groups]
    counts = [sum(int(part.counts[index]) for _, part, index in group) for group in groups]
    return ClassGroups(np.stack(sums), np.array(counts, np.int64))


def _sum_of(row: Row) -> Floats:
    _, part, index = row
    sums: Floats = np.ldexp(part.values[index].astype(np.float64), part.exponent)
    return sums
