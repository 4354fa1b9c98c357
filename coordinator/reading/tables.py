"""Every table of a coordinator's ledger, for whoever asks with SQL.

Each rule takes the table from before an entry to after it. The rules of the fleet do not read
these tables; they decide on `coordinator.core.state`.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.coordinator.ledger.projections import Projection, Projections
from fleetledger.coordinator.reading.sql_views import REFERENCES, SQL_VIEWS
from fleetledger.coordinator.reading.troubles import TROUBLE
from fleetledger.coordinator.topics.contributions.views import (
    CONTRIBUTION,
    CONTRIBUTION_CLASS,
    LEFT_OUT,
    LEFT_OUT_PART,
    SET_ASIDE,
)
from fleetledger.coordinator.topics.devices.views import (
    DEVICE,
    DEVICE_RETIRED,
)
from fleetledger.coordinator.topics.releases.views import PUSH, RELEASE, ROOT
from fleetledger.coordinator.topics.rollouts.views import ROLLOUT, ROLLOUT_ENTRY


def _linked(table: Projection) -> Projection:
    """Return a table whose columns say what they name."""
    found = {
        name: REFERENCES.get(f"{table.name}.{name}", REFERENCES.get(name, ""))
        for name in table.columns
    }
    own = {f"{table.name}.{name}" for name in table.key if len(table.key) == 1}
    links = {name: target for name, target in found.items() if target and target not in own}
    return replace(table, references=links)


TABLES = Projections(
    map(
        _linked,
        (
            DEVICE,
            DEVICE_RETIRED,
            CONTRIBUTION,
            CONTRIBUTION_CLASS,
            LEFT_OUT,
            LEFT_OUT_PART,
            SET_ASIDE,
            ROLLOUT,
            ROLLOUT_ENTRY,
            ROOT,
            PUSH,
            RELEASE,
            TROUBLE,
        ),
    ),
    SQL_VIEWS,
)
"""Every projection of a coordinator's ledger."""
