"""The pages, in the order of the navigation: a line for each, beside its file and its template."""

from fleetledger.coordinator.dashboard.page import Page
from fleetledger.coordinator.dashboard.pages import (
    classes,
    contributions,
    device,
    fleet,
    inspection,
    ledger,
    model,
    models,
    problems,
    rollout,
    rollouts,
    round,
    stage,
    stages,
    traffic,
    trust,
)

PAGES = (
    Page("fleet", "/", fleet.read, nav="Fleet"),
    Page("device", "/devices/{name}", device.read, under="fleet"),
    Page("rollouts", "/rollouts", rollouts.read, nav="Rollouts"),
    Page("rollout", "/rollouts/{number}", rollout.read, under="rollouts"),
    Page("models", "/models", models.read, nav="Models"),
    Page("model", "/models/{version}", model.read, under="models"),
    Page("stages", "/stages", stages.read, nav="Stages", of_learning=True),
    Page("stage", "/stages/{stage}", stage.read, under="stages"),
    Page("round", "/rounds/{number}", round.read, under="stages"),
    Page(
        "contributions", "/contributions", contributions.read, nav="Contributions", of_learning=True
    ),
    Page(
        "inspection",
        "/inspection",
        inspection.read,
        under="contributions",
        of_learning=True,
    ),
    Page("classes", "/classes", classes.read, nav="Classes", of_learning=True),
    Page("ledger", "/ledger", ledger.read, nav="Ledger"),
    Page("trust", "/trust", trust.read, nav="Trust"),
    Page("traffic", "/traffic", traffic.read, nav="Traffic"),
    Page("problems", "/problems", problems.read, nav="Problems"),
)
