"""Every table of a coordinator's ledger that is made from entries: none."""

from __future__ import annotations

from fleetledger.coordinator.ledger.projections import Projections

TABLES = Projections()
"""Every projection of a coordinator's ledger."""
