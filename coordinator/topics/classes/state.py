"""The class registry: each name gets an index once; people's two names for one class are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fleetledger.coordinator.errors import UnknownClassError
from fleetledger.schemas.values import ClassName


@dataclass
class ClassRegistry:
    """Names, indices and aliases.

    - An index is given once and never again, even when its class is merged away.
    - A renamed or merged name stays usable as an alias, so that folders on devices need no change.
    """

    indices: dict[ClassName, int] = field(default_factory=dict)
    aliases: dict[ClassName, ClassName] = field(default_factory=dict)
    next_index: int = 0
    changed: int = 0
    """Index of the last entry that changed a name."""

    def knows(self, name: ClassName) -> bool:
        """Whether the name, or the class it is an alias of, is registered."""
        return name in self.indices or name in self.aliases

    def resolve(self, name: ClassName) -> ClassName:
        """Return the class that the name means; raise `UnknownClassError` for a strange name."""
        while name in self.aliases:
            name = self.aliases[name]
        if name not in self.indices:
            raise UnknownClassError(
                f"class: {str(name)!r} is not registered; `fleetledger class list` shows the names"
            )
        return name

    @property
    def names(self) -> tuple[ClassName, ...]:
        """Registered names in the order of their indices."""
        return tuple(sorted(self.indices, key=self.indices.__getitem__))

    @property
    def accepted_names(self) -> tuple[ClassName, ...]:
        """Names under which devices may contribute: registered ones and aliases, sorted."""
        return tuple(sorted((*self.indices, *self.aliases)))

    def present(self, name: str) -> str:
        """Return the name of the class that a name means; a strange name as it is."""
        while name in self.aliases:
            name = self.aliases[ClassName(name)]
        return name

    def aliases_of(self, name: ClassName) -> tuple[ClassName, ...]:
        """Return the other names of a class, sorted."""
        return tuple(alias for alias in sorted(self.aliases) if self.resolve(alias) == name)

    def resolution(self) -> dict[ClassName, ClassName]:
        """Every accepted name with the class that it means."""
        return {name: self.resolve(name) for name in self.accepted_names}

    def other_names(self, rows: Sequence[ClassName]) -> dict[ClassName, ClassName]:
        """Return other names of a head's rows, which may have been renamed since, with the row."""
        row_of = {self.resolve(row): row for row in reversed(rows)}
        return {
            name: row_of[meaning]
            for name, meaning in self.resolution().items()
            if meaning in row_of and row_of[meaning] != name
        }

    def name(self, name: ClassName, index: int) -> None:
        """Register a new name."""
        self.indices[name] = index
        self.next_index = max(self.next_index, index + 1)

    def rename(self, old: ClassName, new: ClassName) -> None:
        """Give a class another name and keep the old one as an alias."""
        self.indices[new] = self.indices.pop(old)
        self.aliases.pop(new, None)
        self.aliases[old] = new

    def merge(self, source: ClassName, target: ClassName) -> None:
        """Make `source` an alias of `target`; its index is not used again."""
        del self.indices[source]
        self.aliases[source] = target
