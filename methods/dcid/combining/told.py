"""What the coordinator knows of a phase before the first answer."""

from __future__ import annotations

from methods.dcid.assignment import DcidAssignment
from methods.dcid.messages import received
from methods.dcid.sessions import Rows, before_session
from methods.network_weights import Arrays
from methods.training_half import SHARED, Asked


class Told:
    """A phase, its session, and what devices begin with."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self.assignment = assignment
        self.asked = asked
        rows = Rows(asked.weights_class_names, asked.class_names, asked.aliases)
        network = assignment.network
        self.before = before_session(network, asked.weights, asked.extras, rows)

    @property
    def old(self) -> int:
        """Number of classes from before the session, the first of the head."""
        return 0 if self.before is None else len(self.before.names)

    @property
    def classes(self) -> int:
        """Number of rows of the head that is trained."""
        return len(self.asked.class_names)

    def lasting(self) -> dict[str, bytes]:
        """Return the extras that outlast the session: images of the operator's, if there are any.

        The next session has an old model and shared images of its own.
        """
        wanted = {SHARED} if self.assignment.needs_shared else set()
        return {name: data for name, data in self.asked.extras.items() if name in wanted}

    def sent(self) -> Arrays:
        """Return what devices begin with."""
        asked = self.asked
        return received(
            self.assignment, asked.weights, asked.weights_class_names, asked.class_names
        )
