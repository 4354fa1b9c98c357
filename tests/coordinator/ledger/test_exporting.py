"""Exports and proofs: checked without the ledger, and every change of a file is noticed."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.errors import AuditError
from fleetledger.coordinator.ledger.audit import audit, exported_entries
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.entry_proofs import check, prove
from fleetledger.coordinator.ledger.keys import coordinator_key, note_signer, public_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.tiles import export, tile_name
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.values import FleetId
from tests.schemas.proofs import slow

FLEET = FleetId("orchard")
SIZE = 600


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("coordinator")
    write_new(home, CoordinatorSettings(fleet=FLEET))
    signer = note_signer(home, FLEET)
    with Ledger.open(ledger_path(home), sign_note=signer) as ledger:
        for start in range(0, SIZE, 50):
            ledger.append([draft(number) for number in range(start, start + 50)])
    return home


@pytest.fixture(scope="module")
def exported(home: Path) -> Path:
    folder = home / "exported"
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        assert export(ledger, folder) == SIZE
    return folder


def draft(number: int) -> EntryDraft:
    return EntryDraft("class.named", "operator", {"name": f"apple {number}", "text": "a\nb"})


def key_of(home: Path) -> SigningKey:
    return coordinator_key(home, FLEET)


def test_an_export_is_audited_with_nothing_but_the_public_key(home: Path, exported: Path) -> None:
    found = audit(exported, FLEET, (key_of(home).verify_key,))
    assert (found.checkpoint.size, found.kinds) == (SIZE, {"class.named": SIZE})
    assert "600 entries of orchard fit what was signed" in str(found)


def test_entries_and_tiles_can_be_read_without_the_program(home: Path, exported: Path) -> None:
    bundles = ["entries/000", "entries/001", "entries/002.p/88"]
    lines = b"".join((exported / name).read_bytes() for name in bundles).split(b"\n")
    data = [b"\n".join(lines[n : n + 2]) for n in range(0, 2 * SIZE, 2)]
    assert json.loads(data[599].split(b"\n")[1])["name"] == "apple 599"
    note = (exported / "checkpoint").read_text(encoding="utf-8").split("\n")
    assert base64.b64decode(note[2]) == slow.mth(data)
    tile = (exported / "tile" / "1" / "000.p" / "2").read_bytes()
    assert tile == slow.mth(data[:256]) + slow.mth(data[256:512])


def test_an_entry_of_an_export_is_found_by_its_index(exported: Path) -> None:
    assert list(exported_entries(exported))[555].body["name"] == "apple 555"


@pytest.mark.parametrize(
    ("number", "width", "name"),
    [(0, 256, "000"), (67, 5, "067.p/5"), (1234067, 256, "x001/x234/067")],
)
def test_tiles_are_named_as_tlog_tiles_names_them(number: int, width: int, name: str) -> None:
    assert tile_name(number, width) == name


def _flip(file: str, place: int = -3) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = bytearray((folder / file).read_bytes())
        data[place] ^= 1
        (folder / file).write_bytes(bytes(data))

    return change


def _swap(folder: Path) -> None:
    file = folder / "entries" / "001"
    lines = file.read_bytes().split(b"\n")
    lines[0:2], lines[2:4] = lines[2:4], lines[0:2]
    file.write_bytes(b"\n".join(lines))


def _drop(folder: Path) -> None:
    file = folder / "entries" / "001"
    file.write_bytes(b"\n".join(file.read_bytes().split(b"\n")[2:]))


def _edit(folder: Path) -> None:
    file = folder / "entries" / "000"
    file.write_bytes(file.read_bytes().replace(b"apple 7", b"pear 77", 1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_edit, "entries"),
        (_swap, "entry 256: says that it is number 257"),
        (_drop, "holds 255 entries, and 256"),
        (_flip("entries/000"), "entries/000"),
        (_flip("tile/0/001"), "tile/0/001"),
        (_flip("tile/1/000.p/2"), "tile/1/000.p/2"),
        (_flip("checkpoint"), "checkpoint"),
        (lambda folder: (folder / "entries" / "001").unlink(), "is not there"),
        (lambda folder: (folder / "tile" / "0" / "000").unlink(), "is not there"),
    ],
    ids=["edited", "exchanged", "dropped", "entry", "tile", "upper", "note", "gone", "no tile"],
)
def test_every_change_of_an_export_is_named(
    home: Path, exported: Path, tmp_path: Path, change: Callable[[Path], None], named: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    change(copy)
    with pytest.raises(AuditError, match=named):
        audit(copy, FLEET, (key_of(home).verify_key,))


def test_an_export_that_somebody_else_signed_is_refused(home: Path, exported: Path) -> None:
    stranger = SigningKey.fresh(key_of(home).name).verify_key
    with pytest.raises(AuditError, match="not signed by"):
        audit(exported, FLEET, (stranger,))
    with pytest.raises(AuditError, match="another log"):
        audit(exported, FleetId("vineyard"), (key_of(home).verify_key,))


def test_an_export_never_writes_over_something(home: Path, exported: Path) -> None:
    with (
        LedgerReader.open_read_only(ledger_path(home)) as ledger,
        pytest.raises(AuditError, match="not empty"),
    ):
        export(ledger, exported)


def test_a_ledger_that_is_not_signed_cannot_be_exported_or_proven(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.append([draft(0)])
        with pytest.raises(AuditError, match="signed"):
            export(ledger, tmp_path / "out")
        with pytest.raises(AuditError, match="not signed"):
            prove(ledger, 0)


def test_the_proof_of_an_entry_convinces_whoever_has_the_key(home: Path) -> None:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        for index in (0, 255, 256, SIZE - 1):
            proven = check(prove(ledger, index), FLEET, (key_of(home).verify_key,))
            assert proven.entry == ledger.entry(index)
            assert proven.checkpoint.root == ledger.root


def test_a_proof_of_another_entry_size_or_log_is_refused(home: Path) -> None:
    keys = (key_of(home).verify_key,)
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        first, second = (prove(ledger, index) for index in (3, 4))
        older = ledger.inclusion_proof(3, 100)
    for altered, named in (
        (first.model_copy(update={"entry": second.entry}), "leads from entry 3"),
        (first.model_copy(update={"inclusion": older}), "do not belong together"),
        (first.model_copy(update={"entry": first.entry + " "}), "leads from entry 3"),
        (first.model_copy(update={"checkpoint": "nothing"}), "fetch the checkpoint again"),
    ):
        with pytest.raises(AuditError, match=named):
            check(altered, FLEET, keys)
    with pytest.raises(AuditError, match="another log"):
        check(first, FleetId("vineyard"), keys)


def test_the_commands_prove_export_and_audit(home: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    key = str(public_key(home))
    made = runner.invoke(cli.app, ["prove", "7", "--home", str(home)])
    assert made.exit_code == 0, made.output
    file = tmp_path / "proof.json"
    file.write_text(made.stdout, encoding="utf-8")
    who = ["--fleet", FLEET, "--key", key]
    shown = runner.invoke(cli.app, ["audit", str(file), *who])
    assert shown.exit_code == 0
    assert "entry 7 is in the ledger of orchard: signed over 600 entries" in shown.stdout
    out = runner.invoke(cli.app, ["export", str(tmp_path / "out"), "--home", str(home)])
    assert (out.exit_code, out.stdout.split("\n")[1]) == (0, key)
    fits = runner.invoke(cli.app, ["audit", str(tmp_path / "out"), *who])
    assert (fits.exit_code, fits.stdout.split("\n")[1]) == (0, "600 class.named")
    file.write_text(made.stdout.replace("apple 7", "apple 8"), encoding="utf-8")
    refused = runner.invoke(cli.app, ["audit", str(file), *who])
    assert refused.exit_code == 1
    assert "does not hold" in refused.output


@pytest.mark.parametrize("text", ["", "{}", "[1]", "x" * (1 << 22) + "x"], ids=range(4))
def test_a_file_that_holds_no_proof_is_refused(home: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "proof.json"
    file.write_text(text, encoding="utf-8")
    key = str(public_key(home))
    done = CliRunner().invoke(cli.app, ["audit", str(file), "--fleet", FLEET, "--key", key])
    assert done.exit_code == 1
    assert "proof.json" in done.output
