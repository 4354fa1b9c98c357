"""The pages, in the order of the navigation: a line for each, beside its file and its template."""

from __future__ import annotations

from coordinator.dashboard.page import Page
from coordinator.dashboard.pages import device, fleet, ledger, model, models

PAGES = (
    Page("fleet", "/", fleet.read, nav="Fleet"),
    Page("device", "/devices/{name}", device.read, under="fleet"),
    Page("models", "/models", models.read, nav="Models"),
    Page("model", "/models/{version}", model.read, under="models"),
    Page("ledger", "/ledger", ledger.read, nav="Ledger"),
)
