"""`fleetledger trust …`: which keys the fleet believes, and how they change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator.cli.common import done, show_action
from fleetledger.coordinator.errors import LedgerError, TrustError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.reports.reports import RootReport
from fleetledger.coordinator.settings import CoordinatorSettings, load
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.releases.commands import PublishRoot
from fleetledger.coordinator.trust import root_drafts
from fleetledger.coordinator.trust.key_files import read_or_make
from fleetledger.coordinator.trust.rosters import check_has_roster, kept_roster
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import ActionReport, AsJson
from fleetledger.schemas.keys import KeyName, VerifyKey, read_verify_key
from fleetledger.schemas.roots import RootDocument, SignedRoot

_SHOWN = 10
"""Releases that `trust show` lists, the newest ones."""

app = typer.Typer(
    no_args_is_help=True, help="Root, release and coordinator keys: make, show, change, sign."
)

RootKeys = Annotated[
    list[Path] | None,
    typer.Option(help="File of a root key, made where it is not; may be given several times."),
]
RootPublics = Annotated[
    list[str] | None,
    typer.Option(help="Public root key whose private half is elsewhere; may be given again."),
]
Threshold = Annotated[
    int | None, typer.Option(min=1, help="Root keys that must agree; more than half if absent.")
]
ReleaseKey = Annotated[
    Path | None, typer.Option(help="File of the release key, made where it is not.", dir_okay=False)
]
ExpireDays = Annotated[
    float | None, typer.Option(min=0.0, help="Days after which nothing is installed by it.")
]
SignWith = Annotated[
    list[Path] | None,
    typer.Option("--sign-with", help="File of a root key of before; may be given again."),
]
Anew = Annotated[
    bool, typer.Option("--anew", help="The root keys are lost: devices take this root by hand.")
]
RootFile = Annotated[Path, typer.Argument(help="File of a root document.", dir_okay=False)]


@dataclass(frozen=True)
class FirstRoot:
    """A root that nothing precedes, as options ask for it."""

    keys: Sequence[Path]
    publics: Sequence[str] = ()
    threshold: int | None = None
    release_key: Path | None = None
    expire_days: float | None = None
    anew: bool = False

    def made(self, home: Path) -> ActionReport:
        """Make and publish it; raise `TrustError` where one is published and `anew` is not said."""
        settings, former = load(home), published(home)
        if former is not None and not self.anew:
            raise TrustError(
                f"root: version {former.document.version} is published; change it with `rotate`, "
                "or begin with `init --anew` if its keys are lost"
            )
        roots = _root_keys(settings, self.keys, self.publics)
        file = self.release_key or home / settings.release.key
        changes = root_drafts.Changes(
            root_keys=roots,
            threshold=self.threshold or len(roots) // 2 + 1,
            release_keys=(read_or_make(file, _name(settings, "release")).verify_key,),
            coordinator_keys=(coordinator_key(home, settings.fleet).verify_key,),
            expires_ns=_expires(self.expire_days),
        )
        version = 1 if former is None else former.document.version + 1
        root = root_drafts.sign_with(
            root_drafts.first_root(settings.fleet, changes, version), self.keys
        )
        made = _finish(home, root, None, anew=self.anew)
        update = {"wrote": tuple(map(str, (*self.keys, file, *made.wrote)))}
        if settings.release.expire_days is None:
            text = (
                "releases do not expire: a device that is kept from newer ones is told apart by "
                "its silence alone. To have them expire, set `[release] expire_days` in "
                "coordinator.toml"
            )
            update["followed"] = (*made.followed, text)
        return made.model_copy(update=update)


@app.command()
def init(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    root_key: RootKeys = None,
    root_public: RootPublics = None,
    threshold: Threshold = None,
    release_key: ReleaseKey = None,
    expire_days: ExpireDays = None,
    anew: Anew = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make the fleet's first root: which keys may sign what."""
    asked = FirstRoot(
        root_key or [], root_public or [], threshold, release_key, expire_days, anew=anew
    )
    show_action(asked.made(home), as_json=as_json)


@app.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(help="File of a root document; the published one if absent.")
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Show a root's keys, the newest releases, and what waits for one."""
    former = published(home)
    root = former if file is None else root_drafts.read_root(file)
    found = RootReport(published=file is None and root is not None)
    if root is not None:
        found = found.model_copy(update=root_drafts.described(root, _former_of(root, former)))
    if found.published:
        found = found.model_copy(update=_released(home))
    command_output.show(found, as_json=as_json)


def _released(home: Path) -> dict[str, object]:
    """Return the newest releases, and what waits for one."""
    with ledger_of(home) as ledger, ledger.snapshot():
        rows, waiting = release_views.releases(ledger, _SHOWN), release_views.waiting(ledger)
    return {"releases": tuple(rows), "waiting": tuple(waiting)}


@app.command()
def rotate(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    release_key: ReleaseKey = None,
    root_key: RootKeys = None,
    root_public: RootPublics = None,
    threshold: Threshold = None,
    coordinator: Annotated[
        bool, typer.Option("--coordinator", help="Name the key that is in the home now.")
    ] = False,
    devices: Annotated[
        bool,
        typer.Option("--devices", help="Name the devices that have a key now, for masked cohorts."),
    ] = False,
    expire_days: ExpireDays = None,
    sign_with_key: SignWith = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make the next root: other keys in the place of those before, or a later expiry."""
    settings, former = load(home), _must_be_published(home)
    roster = kept_roster(home, former.document.version + 1) if devices else None
    files = root_key or []
    roots = _root_keys(settings, files, root_public or []) if files or root_public else None
    release = None
    if release_key is not None:
        release = (read_or_make(release_key, _name(settings, "release")).verify_key,)
    changes = root_drafts.Changes(
        root_keys=roots,
        threshold=threshold or (None if roots is None else len(roots) // 2 + 1),
        release_keys=release,
        coordinator_keys=(coordinator_key(home, settings.fleet).verify_key,)
        if coordinator
        else None,
        devices=None if roster is None else roster[1],
        expires_ns=_expires(expire_days),
    )
    root = root_drafts.next_root(former.document, changes)
    made = _finish(
        home, root_drafts.sign_with(root, [*(sign_with_key or []), *files]), former.document
    )
    if roster is not None:
        made = made.model_copy(update={"wrote": (str(roster[0]), *made.wrote)})
    show_action(made, as_json=as_json)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key: its hash of 8 digits, or all of it.")],
    sign_with_key: SignWith = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make the next root without a key: what it signed counts no more."""
    former = _must_be_published(home)
    root = root_drafts.next_root(former.document, root_drafts.without_key(former.document, key))
    made = _finish(home, root_drafts.sign_with(root, sign_with_key or []), former.document)
    show_action(made, as_json=as_json)


@app.command()
def sign(
    file: RootFile,
    key: Annotated[
        list[Path], typer.Option(help="File of a root key; may be given several times.")
    ],
    as_json: AsJson = False,
) -> None:
    """Sign a root document in its file, where a root key is; needs no coordinator."""
    root = root_drafts.sign_with(root_drafts.read_root(file), key)
    root_drafts.write_root(file, root)
    by = ", ".join(item.key for item in root.signatures)
    said = f"signed by {by}; next: `fleetledger trust publish {file}`"
    done(said, as_json=as_json, wrote=[file])


@app.command()
def publish(file: RootFile, anew: Anew = False, home: Home = HOME, as_json: AsJson = False) -> None:
    """Publish a root document that has all its signatures."""
    show_action(_published(file, home, anew=anew), as_json=as_json)


def _published(file: Path, home: Path, *, anew: bool) -> ActionReport:
    root = root_drafts.read_root(file)
    if root.document.fleet != load(home).fleet:
        raise TrustError(f"{file}: is of the fleet {str(root.document.fleet)!r}")
    check_has_roster(home, root.document)
    body = PublishRoot(root=root, anew=anew)
    answer = carried_out(home, body)
    place = root_drafts.write_root(root_drafts.root_file(home, root), root)
    further = (
        "for devices that have none yet: `fleetledger agent init --device NAME --fleet NAME --root "
        f"{place}`"
    )
    return ActionReport(
        said=(answer.text,), entries=answer.entries, wrote=(str(place),), followed=(further,)
    )


def published(home: Path) -> SignedRoot | None:
    """Return the newest root; None also where there is no ledger yet."""
    try:
        return release_views.newest_root(home)
    except LedgerError:
        return None


def _must_be_published(home: Path) -> SignedRoot:
    root = published(home)
    if root is None:
        raise TrustError(
            "root: none is published; begin with `fleetledger trust init --root-key FILE`"
        )
    return root


def _former_of(root: SignedRoot, newest: SignedRoot | None) -> RootDocument | None:
    """Return the document that a draft is to follow, if that is the published one."""
    if newest is None or newest.document.version + 1 != root.document.version:
        return None
    return newest.document


def _finish(
    home: Path, root: SignedRoot, former: RootDocument | None, *, anew: bool = False
) -> ActionReport:
    """Publish a root that is complete; say what a draft lacks."""
    place = root_drafts.write_root(root_drafts.root_file(home, root), root)
    missing = root.missing(former)
    if missing:
        said = (
            f"{place}: not published, signatures missing: {missing}. Where the keys are: "
            f"`fleetledger trust sign {place.name} --key FILE`, then here: `fleetledger trust "
            f"publish {place}`"
        )
        return ActionReport(said=(said,), wrote=(str(place),))
    return _published(place, home, anew=anew)


def _root_keys(
    settings: CoordinatorSettings, files: Iterable[Path], publics: Iterable[str]
) -> tuple[VerifyKey, ...]:
    name = _name(settings, "root")
    made = [read_or_make(file, name).verify_key for file in files]
    keys = (*made, *(read_verify_key(text) for text in publics))
    if not keys:
        raise TrustError("root_key: none is given; `--root-key FILE`, best two of three")
    return keys


def _name(settings: CoordinatorSettings, role: str) -> KeyName:
    return KeyName(f"{settings.fleet}/{role}")


def _expires(days: float | None) -> int | None:
    return None if days is None else time.time_ns() + round(days * root_drafts.DAY_NS)
