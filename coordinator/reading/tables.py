"""Every table of a coordinator's ledger, for whoever asks with SQL.

Each rule takes the table from before an entry to after it. The rules of the fleet do not read
these tables; they decide on `coordinator.core.state`.
"""

from __future__ import annotations

from fleetledger.coordinator.ledger.projections import Projections
from fleetledger.coordinator.topics.contributions.views import (
    CONTRIBUTION,
    CONTRIBUTION_CLASS,
    LEFT_OUT,
    LEFT_OUT_PART,
    SET_ASIDE,
)

TABLES = Projections(
    (
        CONTRIBUTION,
        CONTRIBUTION_CLASS,
        LEFT_OUT,
        LEFT_OUT_PART,
        SET_ASIDE,
    )
)
"""Every projection of a coordinator's ledger."""
