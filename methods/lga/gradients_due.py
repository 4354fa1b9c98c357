"""Which gradients a device owes the proxy.

- With a transition those of its current classes are due, once it has trained in the task.
- Of a class they go once; a class of which the device has exemplars is of an earlier task.
- What the owner withheld stays due as long as the task does: the proxy scores by the present one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from fleetledger.schemas.values import ClassName

Names = tuple[ClassName, ...]


@dataclass(frozen=True)
class GradientsDue:
    """What is known of it before the first round: nothing is due, and nothing went."""

    entered: bool = False
    """Whether the device noticed a task in which it has not trained yet."""
    withheld: bool = False
    """Whether gradients of the task are due that the owner did not let go."""
    sent: Names = ()
    """Classes whose gradients went to the proxy, sorted."""

    def classes(
        self, current: Collection[ClassName], exemplars: Collection[ClassName], *, newest: bool
    ) -> Names:
        """Return the classes that are due with a training, sorted.

        `current` are the device's current classes, `newest` says whether these are of the fleet's
        newest stage, and `exemplars` are the classes of which the device has some.
        """
        if not (self.entered or (self.withheld and newest)):
            return ()
        return _sorted(set(current) - {*self.sent, *exemplars})

    def after_transition(self) -> GradientsDue:
        """Return what is due once a task has begun."""
        return replace(self, entered=True)

    def after_training(self, due: Names, given: Collection[ClassName]) -> GradientsDue:
        """Return what is due after a training, of whose `due` classes those `given` went."""
        return GradientsDue(withheld=len(given) < len(due), sent=_sorted((*self.sent, *given)))

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> GradientsDue:
        """Return the same under the names that classes have now."""
        return replace(self, sent=_sorted(aliases.get(name, name) for name in self.sent))


def _sorted(names: Iterable[ClassName]) -> Names:
    return tuple(sorted(set(names)))
