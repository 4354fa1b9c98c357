"""Rollback, freeze and replay; releases for other fleets and devices."""

from __future__ import annotations

from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.rollouts import WHOLE
from fleetledger.schemas.values import DeviceId
from tests.attacks.pieces import DAY, OTHER_DEVICE, Case, next_root, sends, unreadable
from tests.attacks.target import (
    DEVICE,
    KEY,
    NOW,
    ROOTS,
    WITH,
    WITHOUT,
    Attack,
    desired,
    files_of,
    release,
)
from tests.schemas import signing

ROLLBACK_AND_FREEZE = (
    Case(
        "an old release replayed",
        "coordinator",
        lambda: sends(release(3, 1), 1),
        "older than release 5",
    ),
    Case(
        "an old release for the newest files",
        "coordinator",
        lambda: sends(release(3, 1), 3),
        "older than release 5",
    ),
    Case(
        "a release between two that were taken",
        "coordinator",
        lambda: sends(release(4, 3)),
        "older than release 5",
    ),
    Case(
        "another release of the number that runs",
        "release key",
        lambda: sends(release(5, 3)),
        "another one of that number",
    ),
    Case(
        "the release that runs, for the files of an old model",
        "coordinator",
        lambda: sends(release(5, 2), 1),
        "names version 2",
    ),
    Case(
        "an old release under the highest action there is",
        "coordinator",
        lambda: sends(release(3, 1), 1, action=2**63 - 1),
        "older than release 5",
    ),
    Case(
        "a release that has expired",
        "coordinator",
        lambda: sends(release(6, 3, expires_ns=NOW - DAY)),
        "has expired",
    ),
    Case(
        "a release that expires this moment",
        "coordinator",
        lambda: sends(release(6, 3, expires_ns=NOW)),
        "has expired",
    ),
    Case(
        "a release held back until it expired, while its files are fetched",
        "coordinator",
        lambda: Attack(
            desired(release(6, 3, expires_ns=NOW + DAY), 3), files_of(3), later_ns=NOW + DAY
        ),
        "has expired",
        "files",
    ),
    Case(
        "a release that has expired, for a device whose clock was set back",
        "coordinator",
        lambda: Attack(
            desired(release(6, 3, expires_ns=NOW), 3),
            files_of(3),
            now_ns=NOW - DAY,
            later_ns=NOW - DAY,
            heard_ns=NOW,
        ),
        "has signed a later time",
    ),
    Case(
        "a root that has expired, for a device whose clock begins with 1970",
        "coordinator",
        lambda: Attack(
            desired(
                release(6, 3),
                3,
                roots=(*ROOTS, next_root(signing.ROOTS, expires_ns=NOW)),
            ),
            files_of(3),
            now_ns=0,
            later_ns=0,
            heard_ns=NOW,
        ),
        "root: version 3 has expired",
    ),
    Case(
        "a root that has expired",
        "coordinator",
        lambda: sends(
            release(6, 3),
            roots=(*ROOTS, next_root(signing.ROOTS, expires_ns=NOW - DAY)),
        ),
        "root: version 3 has expired",
    ),
    Case(
        "the number 0",
        "coordinator",
        lambda: unreadable("release", "release", "number", value=0),
        "number",
    ),
    Case(
        "a number beyond all numbers",
        "coordinator",
        lambda: unreadable("release", "release", "number", value=2**63),
        "number",
    ),
    Case(
        "a number as text",
        "coordinator",
        lambda: unreadable("release", "release", "number", value="6"),
        "number",
    ),
    Case(
        "a number with a fraction",
        "coordinator",
        lambda: unreadable("release", "release", "number", value=6.0),
        "number",
    ),
    Case(
        "a field that the release does not have",
        "coordinator",
        lambda: unreadable("release", "release", "force", value=True),
        "force",
    ),
)

PLACES = (
    Case(
        "another fleet's release by the same key",
        "release key",
        lambda: sends(release(6, 3, fleet="harbour")),
        "for the fleet 'harbour'",
    ),
    Case(
        "another device's release",
        "device",
        lambda: sends(release(6, 3, devices=("dev-2",))),
        "for other devices than dev-1",
    ),
    Case(
        "a release for a device whose name begins alike",
        "device",
        lambda: sends(release(6, 3, devices=("dev-10", "dev"))),
        "for other devices than dev-1",
    ),
    Case(
        "a release for the device's name in capitals",
        "device",
        lambda: sends(release(6, 3, devices=(DeviceId("DEV-1"),))),
        "for other devices than dev-1",
    ),
    Case(
        "a release for a share that ends before this device",
        "device",
        lambda: sends(release(6, 3, share=WITHOUT)),
        "dev-1 is not in it",
    ),
    Case(
        "a release for this device by its name and for a share without it",
        "device",
        lambda: sends(release(6, 3, devices=(DEVICE,), share=WITHOUT)),
        "dev-1 is not in it",
    ),
    Case(
        "a release for a share with this device and for others by their names",
        "device",
        lambda: sends(release(6, 3, devices=("dev-2",), share=WITH)),
        "for other devices than dev-1",
    ),
    Case(
        "a release for a share of more than there is",
        "device",
        lambda: unreadable("release", "release", "share", value={"salt": "s", "below": WHOLE + 1}),
        "below",
    ),
    Case(
        "a release for a share with a salt of two lines",
        "device",
        lambda: unreadable("release", "release", "share", value={"salt": "s\ns", "below": 1}),
        "salt",
    ),
    Case(
        "a release for no device",
        "device",
        lambda: unreadable("release", "release", "devices", value=[]),
        "devices",
    ),
    Case(
        "a release by another device's key",
        "device",
        lambda: sends(release(6, 3, by=OTHER_DEVICE)),
        "does not name for releases",
    ),
    Case(
        "a release by another device's key under the release key's name",
        "device",
        lambda: sends(release(6, 3, by=SigningKey(KEY.name, OTHER_DEVICE.seed))),
        "does not name for releases",
    ),
)
