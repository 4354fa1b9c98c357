"""Ledgers inspected: devices of digits whose payloads are read, in every form that is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.models.inspection import inspect_ledger
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.reports.inspection import InspectionReport
from fleetledger.coordinator.topics.classes.entries import ClassMerged
from fleetledger.schemas.values import ClassName
from tests.coordinator.models.digit_home import dealt, write_home

LIARS = (7, 9)


def report_of(home: Path, stage: int | None = None) -> InspectionReport:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return inspect_ledger(Blobs(ledger, BlobStore(blob_folder(home))), stage)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bad")
    write_home(home, dealt(14, LIARS))
    return home


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("good")
    write_home(home, dealt(14))
    return home


@pytest.mark.parametrize("form", ["compact", "exact"])
def test_devices_that_label_wrongly_are_named_in_both_forms(
    tmp_path: Path, bad: Path, form: str
) -> None:
    if form == "exact":
        write_home(tmp_path, dealt(14, LIARS), form=form)
    report = report_of(bad if form == "compact" else tmp_path)
    assert report.harmful == ("dev-7", "dev-9")
    assert report.warnings == ()
    assert all(one.verdict == "no harm" for one in report.devices[2:])
    assert report.answer == "dev-7, dev-9 harm the model, of 14 devices that could be judged."


def test_of_honest_devices_nobody_is_named(good: Path) -> None:
    report = report_of(good)
    assert report.harmful == ()
    assert report.answer == "No harm seen of 14 devices."


def test_a_smudged_lens_that_harms_nobody_is_unlike(tmp_path: Path) -> None:
    fleet = dealt(14)
    h, y = fleet["dev-3"]
    smudged = h.copy()
    smudged[:, ::4] = 60
    write_home(tmp_path, {**fleet, "dev-3": (smudged, y)})
    report = report_of(tmp_path)
    first = report.devices[0]
    assert (report.unlike, report.harmful, first.name) == (("dev-3",), (), "dev-3")
    assert report.answer == "dev-3 is unlike the others, of 14 devices that could be judged."
    assert first.sentence.startswith("classes ")
    assert " times as far from the others' as usual" in first.sentence
    assert first.distance > 2.5
    assert "retract" in " ".join(report.below())


def test_a_sentence_names_the_classes_that_others_lose_by(bad: Path) -> None:
    first = report_of(bad).devices[0]
    worst = max(first.classes, key=lambda one: (one.flagged, one.harm))
    assert first.sentence.startswith(
        f"makes class {worst.name} worse on {worst.harmed} of {worst.judges} others"
    )


def test_one_stage_alone_can_be_judged(tmp_path: Path) -> None:
    fleet = dealt(14)
    write_home(tmp_path, fleet, stages=2)
    assert {one.name: one.images for one in report_of(tmp_path).devices} == {
        name: len(labels) for name, (_, labels) in fleet.items()
    }
    assert {one.name: one.images for one in report_of(tmp_path, 2).devices} == {
        name: len(labels) // 2 for name, (_, labels) in fleet.items()
    }
    with pytest.raises(CommandError, match="nothing that counts was given for stage 3"):
        report_of(tmp_path, 3)


def test_merged_classes_are_judged_as_one(tmp_path: Path) -> None:
    write_home(tmp_path, dealt(14))
    merged = ClassMerged(source=ClassName("3"), target=ClassName("8"))
    with Ledger.open(ledger_path(tmp_path)) as ledger:
        ledger.append([EntryDraft(merged.kind, "operator", merged.model_dump(mode="json"))])
    names = {one.name for device in report_of(tmp_path).devices for one in device.classes}
    assert names == set("012456789")


def test_a_class_that_only_one_device_has_is_said_to_be_out_of_judgement(tmp_path: Path) -> None:
    fleet = dealt(8)
    fleet = {
        name: (h[y != 4], y[y != 4]) if name != "dev-1" else (h, y)
        for name, (h, y) in fleet.items()
    }
    write_home(tmp_path, fleet)
    (first,) = (one for one in report_of(tmp_path).devices if one.name == "dev-1")
    assert first.unjudged == ("4",)
    assert first.sentence.endswith("too few others have class 4 to judge it there")


def test_a_part_whose_payload_was_deleted_is_said_not_to_be_judged(tmp_path: Path) -> None:
    (first, *_) = write_home(tmp_path, dealt(14, LIARS))
    with LedgerReader.open_read_only(ledger_path(tmp_path)) as ledger:
        (payload,) = ledger.entry(first).blobs
    BlobStore(blob_folder(tmp_path)).delete(payload)
    with Ledger.open(ledger_path(tmp_path)) as ledger:
        ledger.mark_pruned({payload: 100})
    report = report_of(tmp_path)
    assert report.unread == (
        f"Entry {first} of dev-1 is not judged: retention deleted its payload.",
    )
    assert "dev-1" not in {one.name for one in report.devices}
    assert report.harmful == ("dev-7", "dev-9")


def test_too_few_devices_are_not_judged(tmp_path: Path) -> None:
    write_home(tmp_path, dealt(3))
    report = report_of(tmp_path)
    assert report.answer == "Nobody can be judged."
    assert {one.verdict for one in report.devices} == {"not judged"}


def test_two_camps_are_warned_of_and_both_are_named(tmp_path: Path) -> None:
    write_home(tmp_path, dealt(14, range(1, 7)))
    report = report_of(tmp_path)
    (warning,) = report.warnings
    assert "two camps that harm each other" in warning
    assert {one.camp for one in report.devices} == {1, 2}
    assert {one.camp for one in report.devices[:6]} == {2}


def test_the_same_ledger_gives_the_same_verdicts(good: Path) -> None:
    one, same = (report_of(good).model_copy(update={"seconds": 0.0}) for _ in range(2))
    assert one == same


def run(home: Path, *arguments: str) -> tuple[int, str, str]:
    command = ["inspect", "--home", str(home), *arguments]
    result = CliRunner().invoke(cli.app, command, env={"FLEETLEDGER_OUTPUT": "tsv"})
    return result.exit_code, result.stdout, result.stderr


def test_the_command_ends_with_one_where_somebody_harms_and_with_zero_where_nobody_does(
    bad: Path, good: Path
) -> None:
    code, out, _ = run(bad, "--json")
    assert code == 1
    assert [one["name"] for one in json.loads(out)["devices"] if one["verdict"] == "harms"] == [
        "dev-7",
        "dev-9",
    ]
    code, out, _ = run(good)
    assert code == 0
    assert out.splitlines()[0].split("\t")[:3] == ["name", "images", "verdict"]


def test_what_cannot_be_inspected_is_a_wrong_use(tmp_path: Path, good: Path) -> None:
    code, _, error = run(good, "--stage", "4")
    assert code == 2
    assert error == "--stage: nothing that counts was given for stage 4\n"
    code, _, error = run(tmp_path / "nothing")
    assert code == 2


def test_a_ledger_without_a_frozen_model_says_what_can_be_inspected(tmp_path: Path) -> None:
    with Ledger.open(ledger_path(tmp_path)):
        pass
    with pytest.raises(CommandError, match="no frozen model leads"):
        report_of(tmp_path)
