"""What waits for a release is shown, signed by a key from elsewhere, or by the one in the home."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli.models import app as model_app
from fleetledger.coordinator.cli.trust import app as trust_app
from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.entries import Entry, EntryDraft
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.settings import CoordinatorSettings, load, write_new
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned, RootPublished
from fleetledger.coordinator.trust.key_files import make_key, public_file
from fleetledger.coordinator.trust.release_key import release_signer
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import exported
from tests.coordinator.topics.releases.test_releases import ROTATED, ReleasingBench
from tests.schemas import signing


def write_ledger(home: Path, bench: ReleasingBench) -> Path:
    write_new(home, CoordinatorSettings(fleet=signing.FLEET))
    with Ledger.open(ledger_path(home)) as ledger:
        for body, device, time_ns in bench.entries:
            values = body.model_dump(mode="json")
            blobs = ()  # nobody reads the files here
            ledger.append([EntryDraft(body.kind, "test", values, device, blobs, time_ns)])
    return home


def keep(file: Path, key: SigningKey) -> Path:
    """Put a key into files as `make_key` does."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, key.pem)
    public_file(file).write_text(f"{key.verify_key}\n", encoding="ascii")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Model 1 was released by an offline key; it waits for one device, and model 2 for all."""
    bench = ReleasingBench(key=None, root=signing.root())
    bench.sign(1)
    bench.command(PushModel(version=1, devices=(DeviceId("dev-1"),)))
    bench.more()
    bench.command(PushModel(version=1, devices=(DeviceId("dev-2"),)))
    return write_ledger(tmp_path / "home", bench)


def releases(home: Path) -> list[release_views.ReleaseRow]:
    with ledger_of(home) as ledger:
        return release_views.releases(ledger)


def run(app: object, *words: object) -> str:
    done = CliRunner().invoke(
        app,  # type: ignore[arg-type]
        [str(word) for word in words],
        catch_exceptions=False,
        env={"COLUMNS": "200"},
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_what_waits_is_what_was_pushed_to_all_last_and_to_devices_since(home: Path) -> None:
    with ledger_of(home) as ledger:
        waiting = release_views.waiting(ledger)
    assert [(push.version, push.devices, push.manifest) for push in waiting] == [
        (2, None, exported(2).manifest.digest),
        (1, ("dev-2",), exported(1).manifest.digest),
    ]


def test_the_newest_releases_are_shown_with_their_keys(home: Path) -> None:
    (row,) = releases(home)
    assert (row.number, row.version) == (1, 1)
    said = run(trust_app, "show", "--home", home)
    assert row.key in said
    assert f"for all devices waits: `fleetledger model sign 2 --key FILE --home {home}`" in said
    assert "model 1 for dev-2 waits" in said
    assert "waits for `model sign`" in run(model_app, "list", "--home", home)


def test_models_are_released_by_a_key_from_elsewhere(home: Path, tmp_path: Path) -> None:
    file = keep(tmp_path / "usb" / "release.pem", signing.RELEASE)
    said = run(model_app, "sign", 1, "--key", file, "--home", home)
    assert said == "release 2 is signed: model 1 goes out\n"
    run(model_app, "sign", 2, "--key", file, "--home", home)
    assert [(row.number, row.version) for row in releases(home)] == [
        (3, 2),
        (2, 1),
        (1, 1),
    ]
    with ledger_of(home) as ledger:
        assert release_views.waiting(ledger) == []
    with pytest.raises(CommandError, match="does not wait for a release"):
        run(model_app, "sign", 2, "--key", file, "--home", home)


def test_another_key_releases_nothing(home: Path, tmp_path: Path) -> None:
    file = make_key(tmp_path / "usb" / "release.pem", signing.RELEASE.name)
    assert file.verify_key not in signing.document().release_keys
    with pytest.raises(CommandError, match="does not name for releases"):
        run(model_app, "sign", 2, "--key", tmp_path / "usb" / "release.pem", "--home", home)
    assert len(releases(home)) == 1


def test_a_key_in_the_home_signs_if_the_root_names_it(home: Path) -> None:
    signer = release_signer(home, load(home))
    first, second = signing.document(), ROTATED.document
    wanted = signing.release(9).release
    assert not signer.is_ready(first)
    keep(home / "keys" / "release.pem", signing.RELEASE)
    assert signer(wanted, first) == signing.release(9)
    assert signer(wanted, second) is None
    keep(home / "keys" / "release-2.pem", signing.SPARE)
    assert signer(wanted, second) == signing.release(9, by=signing.SPARE)
    (home / "keys" / "release-2.pem").chmod(0o644)
    assert signer(wanted, second) is None


def test_a_coordinator_with_the_key_releases_what_waits_when_it_starts(home: Path) -> None:
    keep(home / "keys" / "release.pem", signing.RELEASE)
    settings = load(home)
    signer = release_signer(home, settings)
    engine = LedgerEngine.open(home, settings.rules, sign_release=signer)
    engine.process([inputs.Tick()])
    engine.close()
    found = [(row.number, row.version) for row in releases(home)]
    assert found == [(3, 1), (2, 2), (1, 1)]


def test_roots_and_releases_are_told_in_words() -> None:
    signed = signing.release(4, version=3, devices=("dev-1", "dev-2"))
    bodies = (RootPublished(root=signing.root()), ReleaseSigned(action=9, signed=signed))
    root, release = (
        sentence_of(Entry(0, 0, body.kind, "test", None, body.model_dump(mode="json")))
        for body in bodies
    )
    assert root.startswith("Root version 1: releases are signed by orchard/release ")
    assert "the next root by 2 of orchard/root " in root
    assert release.startswith("Release 4: model 3 may be installed on dev-1")
    assert "as entry 9 wants it" in release
