"""One demo run from the first file to the last number."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from methods.stsa.settings import StsaSettings
from simulator.demo.fleet import Run, run_fleet
from simulator.demo.homes import method_settings
from simulator.demo.material import Material, digits_material
from simulator.demo.metrics_file import RunFacts
from simulator.demo.plan import make_plan
from simulator.demo.report import print_report, verify_ledger, write_report
from simulator.demo.run_folder import RunFolder
from simulator.demo.screen import Screen
from simulator.demo.settings import DemoSettings
from simulator.demo.yardstick import measure_pooled
from simulator.errors import DemoError


def run_demo(settings: DemoSettings, console: Console) -> dict[str, Any]:
    """Run the demo on the digits; see `run_material`."""
    return run_material(settings, digits_material(settings.seed), console)


def run_material(settings: DemoSettings, material: Material, console: Console) -> dict[str, Any]:
    """Let a fleet learn `material`, print a report, and return the content of `metrics.json`.

    Raises `DemoError` when the fleet does not get through its stages, or its ledger does not
    verify; the run folder stays.
    """
    plan = make_plan(material.split, settings)
    with Screen(console) as screen:
        run = Run(settings, material, RunFolder.create(settings.out), plan, screen)
        outcome = run_fleet(run)
        screen.wait("report: verifying the ledger, solving the pooled reference")
        ledger = verify_ledger(run)
        stsa = StsaSettings.model_validate(method_settings(settings))
        pooled = measure_pooled(material, plan, stsa)
    facts = RunFacts(
        settings=settings,
        plan=plan,
        reports=outcome.reports,
        results=outcome.results,
        pooled=pooled,
        ridge=stsa.ridge_value,
        broker=outcome.broker,
        ledger=ledger,
        resident_mib=outcome.resident_mib,
        problems=outcome.problems,
        seconds=outcome.seconds,
    )
    content = write_report(run, facts)
    print_report(console, run, facts)
    if not ledger["verified"]:
        raise DemoError(f"ledger: does not verify: {ledger['report']}")
    return content
