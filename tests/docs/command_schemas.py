"""Writes docs/json: a JSON Schema for what each command shows with `--json`.

`python -m tests.docs.command_schemas` writes; a test fails while one is stale. It stands beside the
tests because no room of the program may know the commands of all others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fleetledger.coordinator.reports import reports
from fleetledger.coordinator.reports.answers import FleetNow
from fleetledger.coordinator.reports.inspection import InspectionReport
from fleetledger.coordinator.reports.rollouts.preview import RolloutPreview
from fleetledger.coordinator.reports.rollouts.report import (
    RolloutAnswer,
    RolloutReport,
    RolloutsReport,
)
from fleetledger.coordinator.reports.round_inspection import RoundsInspection
from fleetledger.coordinator.topics.models.queries import ModelReport
from fleetledger.coordinator.topics.rollouts.verdict_check import RolloutVerifyReport
from fleetledger.device_agent.cli.doctor import DoctorReport
from fleetledger.device_agent.home.status_file import Status
from fleetledger.device_agent.models.inference.predictions import PredictReport
from fleetledger.runtime.command_output import ActionReport
from fleetledger.runtime.command_report import Report, VersionReport
from fleetledger.runtime.field_docs import describe_fields
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.generate import DIALECT
from fleetledger.simulator.attack.table import AttacksReport
from fleetledger.simulator.scenario.scenario_list import ScenariosReport, StudiesReport

FOLDER = Path(__file__).parents[2] / "docs" / "json"

_DOING = ("approve", "start", "pause", "resume", "abort", "back")
REPORTS: dict[str, type[Report]] = {
    "agent doctor": DoctorReport,
    "agent predict": PredictReport,
    "attack run": AttacksReport,
    "class list": reports.ClassesReport,
    "coordinator rounds": reports.RoundsReport,
    "coordinator stages": reports.StagesReport,
    "coordinator status": FleetNow,
    "dashboard token --list": reports.TokensReport,
    "device list": reports.DevicesReport,
    "device show": reports.DeviceReport,
    "ledger audit": reports.AuditReport,
    "ledger inspect": InspectionReport,
    "ledger inspect --rounds": RoundsInspection,
    "ledger replay": reports.ReplayReport,
    "ledger show": reports.EntryReport,
    "ledger tail": reports.EntriesReport,
    "ledger verify": reports.VerifyReport,
    "model list": reports.ModelsReport,
    "model show": ModelReport,
    **{f"rollout {verb}": RolloutAnswer for verb in _DOING},
    "rollout list": RolloutsReport,
    "rollout plan": RolloutPreview,
    "rollout show": RolloutReport,
    "rollout verify": RolloutVerifyReport,
    "simulate --list": ScenariosReport,
    "simulate sweep --list": StudiesReport,
    "trust show": reports.RootReport,
    "version": VersionReport,
}
"""What each command shows."""
ACTIONS = (
    *(f"agent {verb}" for verb in ("enrol", "forget", "init", "install", "resubmit")),
    *(f"agent {verb}" for verb in ("rotate-key", "segment")),
    "attack invert",
    *(f"bundle {verb}" for verb in ("deb", "install", "make", "verify")),
    *(f"class {verb}" for verb in ("rename", "merge")),
    *(f"coordinator {verb}" for verb in ("admit", "broker-config", "close-stage")),
    *(f"coordinator {verb}" for verb in ("correct-clock", "enrol", "init", "open-stage")),
    *(f"coordinator {verb}" for verb in ("provision", "proxy-init", "resume-rounds")),
    *(f"coordinator {verb}" for verb in ("revoke", "settle")),
    *(f"dashboard {verb}" for verb in ("link", "token")),
    *(f"device {verb}" for verb in ("pin", "replaced", "retire", "tag")),
    *(f"ledger {verb}" for verb in ("count-in", "explore", "export", "mirror")),
    *(f"ledger {verb}" for verb in ("restore", "retract")),
    *(f"model {verb}" for verb in ("adapt", "export", "export-backbone", "hold")),
    *(f"model {verb}" for verb in ("import", "import-backbone")),
    *(f"model {verb}" for verb in ("import-network", "push", "rollback", "sign", "variants")),
    "simulate compare",
    *(f"trust {verb}" for verb in ("init", "publish", "revoke", "rotate", "sign")),
)
"""Commands that act: they show one kind of report, with one schema."""
REPORTS |= dict.fromkeys(ACTIONS, ActionReport)
OF_ITS_OWN: dict[str, type[Strict]] = {"agent status": Status}
"""What commands print as JSON that have lines of words in place of a table."""


def file_name(command: str) -> str:
    """Return the name of a command's schema; commands that act have one together."""
    if command in ACTIONS:
        return "action.schema.json"
    return f"{command.replace('--', '').replace(' ', '-')}.schema.json"


def schemas() -> dict[str, str]:
    """Return the text of every file by its name."""
    describe_fields()
    shown: dict[str, type[Strict]] = {**REPORTS, **OF_ITS_OWN}
    return {file_name(command): _schema(command, model) for command, model in shown.items()}


def schema_of(command: str) -> dict[str, object]:
    """Return the schema of a command, as it is published."""
    found: dict[str, object] = json.loads((FOLDER / file_name(command)).read_text("utf-8"))
    return found


def stale() -> list[str]:
    """Return the names of files that are missing, differ, or belong to no command."""
    texts = schemas()
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")}
    return sorted(name for name in texts.keys() | present if texts.get(name) != present.get(name))


def main() -> None:
    """Bring the folder up to date."""
    texts = schemas()
    FOLDER.mkdir(exist_ok=True)
    for name in stale():
        if name in texts:
            (FOLDER / name).write_text(texts[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
        sys.stdout.write(f"written: docs/json/{name}\n")


def _schema(command: str, model: type[Strict]) -> str:
    schema = {
        "$schema": DIALECT,
        **model.model_json_schema(mode="serialization"),
        "title": "a command that acts, with --json"
        if command in ACTIONS
        else f"fleetledger {command} --json",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
