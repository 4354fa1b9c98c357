"""`fleetledger trust …`: roots are made, signed where their keys are, published and changed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli.trust import app
from fleetledger.coordinator.errors import CommandError, KeyFileError, TrustError
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import public_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.engine import carry_out_waiting
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.coordinator.topics.keys.entries import DeviceEnrolled
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.trust.key_files import make_key, public_file, read_key
from fleetledger.coordinator.trust.release_key import waits_for_key
from fleetledger.schemas.cohorts import DeviceRoster
from fleetledger.schemas.keys import KeyName, VerifyKey
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.signatures import name_of
from fleetledger.schemas.values import DeviceId, Digest, FleetId


class Office:
    """A coordinator's home, and a safe with keys beside it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.safe = folder / "home", folder / "safe"
        write_new(self.home, CoordinatorSettings(fleet=FleetId("orchard")))

    def run(self, *words: object) -> str:
        done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    def trust(self, verb: str, *words: object) -> str:
        return self.run(verb, *words, "--home", self.home)

    def keys(self, *names: str, option: str = "--root-key") -> list[object]:
        return [word for name in names for word in (option, self.safe / f"{name}.pem")]

    def key(self, name: str) -> VerifyKey:
        return read_key(self.safe / f"{name}.pem").verify_key

    def draft(self, version: int) -> Path:
        return self.home / "trust" / f"root-{version}.json"

    @property
    def root(self) -> RootDocument:
        published = release_views.newest_root(self.home)
        assert published is not None
        return published.document


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.fixture
def rooted(office: Office) -> Office:
    said = office.trust("init", *office.keys("a", "b", "c"))
    assert "releases do not expire" in said
    return office


def test_the_first_root_names_all_keys_and_most_of_the_root_keys_must_agree(
    rooted: Office,
) -> None:
    assert rooted.root.root_keys == (rooted.key("a"), rooted.key("b"), rooted.key("c"))
    assert (rooted.root.version, rooted.root.threshold) == (1, 2)
    home_key = read_key(rooted.home / "keys" / "release.pem").verify_key
    assert rooted.root.release_keys == (home_key,)
    assert rooted.root.coordinator_keys == (public_key(rooted.home),)
    assert SignedRoot.read(rooted.draft(1).read_bytes()).document == rooted.root
    with LedgerReader.open_read_only(ledger_path(rooted.home)) as ledger:
        assert next(entry.kind for entry in ledger.entries()) == "root.published"
    assert "release keys orchard/release" in rooted.trust("show")


def test_models_wait_for_a_release_key_that_lies_elsewhere(rooted: Office, tmp_path: Path) -> None:
    assert not waits_for_key(rooted.home)
    (rooted.home / "keys" / "release.pem").rename(rooted.safe / "release.pem")
    assert waits_for_key(rooted.home)
    unrooted = Office(tmp_path / "unrooted")
    assert carry_out_waiting(unrooted.home)  # makes the ledger
    assert not waits_for_key(unrooted.home)


def test_private_keys_are_for_their_owner_alone(rooted: Office) -> None:
    for file in (*rooted.safe.glob("*.pem"), rooted.home / "keys" / "release.pem"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (rooted.safe / "a.pem").chmod(0o640)
    with pytest.raises(KeyFileError, match="others may read it"):
        rooted.key("a")


def test_before_a_root_nothing_is_signed(office: Office) -> None:
    assert "models go out unsigned" in office.trust("show")
    with pytest.raises(TrustError, match="none is published"):
        office.trust("revoke", "00000000")
    with pytest.raises(TrustError, match="none is given"):
        office.trust("init")


def test_a_second_first_root_is_refused(rooted: Office) -> None:
    with pytest.raises(TrustError, match="version 1 is published; change it"):
        rooted.trust("init", *rooted.keys("d"))


def test_a_root_begins_anew_where_its_keys_are_lost(rooted: Office) -> None:
    rooted.trust("init", *rooted.keys("d"), "--anew", "--release-key", rooted.safe / "r.pem")
    assert (rooted.root.version, rooted.root.root_keys) == (2, (rooted.key("d"),))
    assert rooted.root.release_keys == (rooted.key("r"),)


def test_root_keys_may_be_made_and_used_on_other_machines(office: Office) -> None:
    elsewhere = make_key(office.safe / "far.pem", KeyName("orchard/root"))
    near = office.keys("near")
    said = office.trust("init", *near, "--root-public", elsewhere.verify_key)
    assert "signatures missing: 1" in said
    assert not ledger_path(office.home).exists()
    assert "missing signatures of root keys: 1" in office.trust("show", office.draft(1))
    office.run("sign", office.draft(1), "--key", office.safe / "far.pem")
    office.trust("publish", office.draft(1))
    assert office.root.root_keys == (office.key("near"), elsewhere.verify_key)


def test_a_release_key_is_rotated_with_the_threshold_of_the_root(rooted: Office) -> None:
    new = rooted.home / "keys" / "release-2.pem"
    said = rooted.trust("rotate", "--release-key", new, *rooted.keys("a", option="--sign-with"))
    assert "signatures missing: 1" in said
    assert rooted.root.version == 1
    with pytest.raises(CommandError, match="1 of the 2 signatures"):
        rooted.trust("publish", rooted.draft(2))
    rooted.run("sign", rooted.draft(2), *rooted.keys("c", option="--key"))
    rooted.trust("publish", rooted.draft(2))
    assert rooted.root.release_keys == (read_key(new).verify_key,)


def test_root_keys_are_rotated_by_the_former_and_the_new(rooted: Office) -> None:
    former = rooted.keys("a", "b", option="--sign-with")
    rooted.trust("rotate", *rooted.keys("d", "e"), "--threshold", 1, *former)
    assert rooted.root.root_keys == (rooted.key("d"), rooted.key("e"))
    assert (rooted.root.version, rooted.root.threshold) == (2, 1)
    rooted.trust("rotate", "--expire-days", 9)
    with pytest.raises(CommandError, match="0 of the 1"):
        rooted.trust("publish", rooted.draft(3))
    rooted.trust("rotate", "--expire-days", 9, *rooted.keys("d", option="--sign-with"))
    assert rooted.root.expires_ns is not None


def test_a_key_is_revoked_by_the_root_after_it(rooted: Office) -> None:
    signers = rooted.keys("b", "c", option="--sign-with")
    rooted.trust("revoke", name_of(rooted.key("a")), *signers)
    assert rooted.root.root_keys == (rooted.key("b"), rooted.key("c"))
    with pytest.raises(TrustError, match="1 root key for a threshold of 2"):
        rooted.trust("revoke", rooted.key("b"), *signers)
    with pytest.raises(TrustError, match="only release key"):
        rooted.trust("revoke", rooted.root.release_keys[0], *signers)
    with pytest.raises(TrustError, match="is none of root version 2"):
        rooted.trust("revoke", "00000000", *signers)


def test_a_coordinators_new_key_gets_into_the_root(rooted: Office) -> None:
    before = rooted.root.coordinator_keys
    for file in (rooted.home / "keys").glob("coordinator.*"):
        file.unlink()
    signers = rooted.keys("a", "b", option="--sign-with")
    rooted.trust("rotate", "--coordinator", *signers)
    assert rooted.root.coordinator_keys == (public_key(rooted.home),) != before


def test_files_that_are_no_roots_or_keys_are_named(rooted: Office, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    with pytest.raises(TrustError, match=r"wrong\.json: cannot be read"):
        rooted.trust("publish", wrong)
    wrong.write_text("{}", encoding="utf-8")
    with pytest.raises(TrustError, match=r"wrong\.json: root: document: is missing"):
        rooted.trust("publish", wrong)
    other = Office(tmp_path / "other")
    other.trust("init", *other.keys("a"))
    other.draft(1).write_bytes(other.draft(1).read_bytes().replace(b"orchard", b"harbour"))
    with pytest.raises(TrustError, match="harbour"):
        rooted.trust("publish", other.draft(1))
    (rooted.safe / "a.pub").write_text((rooted.safe / "b.pub").read_text())
    with pytest.raises(KeyFileError, match="is of another key"):
        rooted.key("a")
    (rooted.safe / "b.pem").write_text("no key")
    with pytest.raises(KeyFileError, match="no private key in PEM"):
        rooted.key("b")
    public_file(rooted.safe / "c.pem").unlink()
    with pytest.raises(KeyFileError, match="cannot be read as a public key"):
        rooted.key("c")


def test_a_key_is_never_written_over(rooted: Office) -> None:
    with pytest.raises(KeyFileError, match="is there already"):
        make_key(rooted.safe / "a.pem", KeyName("orchard/root"))


def test_the_ledger_verifies_with_roots_in_it(rooted: Office) -> None:
    signers = rooted.keys("b", "c", option="--sign-with")
    rooted.trust("revoke", name_of(rooted.key("a")), *signers)
    with LedgerReader.open_read_only(ledger_path(rooted.home)) as ledger:
        assert [entry.kind for entry in ledger.entries()].count("root.published") == 2


def enrol(office: Office, *devices: str) -> DeviceRoster:
    """Let devices have keys, and return the roster of them."""
    named = map(DeviceId, devices)
    keys = {
        device: VerifyKey.of(KeyName(f"orchard/device/{device}"), device.encode().ljust(32))
        for device in named
    }
    with Ledger.open(ledger_path(office.home)) as ledger:
        for device, key in keys.items():
            token = Digest.of(b"token")
            admitted = DeviceAdmitted(device=device)
            has_key = DeviceEnrolled(device=device, key=key, invitation=token)
            drafts = [
                EntryDraft(body.kind, "test", body.model_dump(mode="json"), device, (), 1)
                for body in (admitted, has_key)
            ]
            ledger.append(drafts)
    return DeviceRoster(fleet=FleetId("orchard"), keys=keys)


def test_a_root_names_the_devices_that_have_a_key(rooted: Office) -> None:
    signers = rooted.keys("a", "c", option="--sign-with")
    with pytest.raises(TrustError, match="none has a key"):
        rooted.trust("rotate", "--devices", *signers)
    roster = enrol(rooted, "crane-1", "crane-2")
    rooted.trust("rotate", "--devices", *signers)
    assert rooted.root.devices == Digest.of(roster.canonical_bytes())
    written = (rooted.home / "trust" / "devices-2.json").read_bytes()
    assert DeviceRoster.read(written, rooted.root.devices) == roster
    assert f"devices roster {rooted.root.devices.short}" in rooted.trust("show")
    rooted.trust("rotate", "--coordinator", *signers)
    assert rooted.root.devices == Digest.of(roster.canonical_bytes()), "what is not said stays"


def test_a_root_whose_roster_is_not_here_is_not_published(rooted: Office) -> None:
    enrol(rooted, "crane-1")
    rooted.trust("rotate", "--devices")
    for blob in (rooted.home / "ledger" / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    rooted.run("sign", rooted.draft(2), *rooted.keys("a", "c", option="--key"))
    with pytest.raises(TrustError, match="is not in this home"):
        rooted.trust("publish", rooted.draft(2))
