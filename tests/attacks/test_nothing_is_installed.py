"""No attack on what a device installs is accepted, and none leaves anything behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.models import DesiredModel
from tests.attacks.cases import CASES
from tests.attacks.pieces import Case
from tests.attacks.target import (
    SECOND,
    Attack,
    Target,
    copy_victim,
    desired,
    files_of,
    make_victim,
    manifest_of,
    release,
)

LEAST_CASES = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_victim(tmp_path_factory.mktemp("victim") / "device")


@pytest.fixture
def victim(made: Path, tmp_path: Path) -> Iterator[Target]:
    target = copy_victim(made, tmp_path / "device")
    yield target
    target.close()


def may_be_fetched(case: Case, attack: Attack) -> set[str]:
    """Return the digests that the attack may have had fetched."""
    assert isinstance(attack.sent, DesiredModel)
    manifest = attack.sent.manifest.digest
    if case.fetches == "nothing":
        return set()
    return {manifest} if case.fetches == "manifest" else {manifest, *files_of(3)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.role}: {case.line}")
def test_it_is_refused(case: Case, victim: Target) -> None:
    before = (victim.running, victim.state.records.heights, victim.blobs.digests())
    attack = case.attack()
    if isinstance(attack.sent, dict):
        with pytest.raises(SchemaError, match=case.says):
            victim.suffer(attack)
        assert victim.fetched == []
    else:
        victim.suffer(attack)
        assert case.says in victim.reason()
        assert {offer.digest for offer in victim.fetched} <= may_be_fetched(case, attack)
    assert victim.running == before[0] == manifest_of(2).digest
    assert victim.state.models.active is not None
    assert victim.state.models.active.version == 2
    if case.fetches == "nothing":
        assert (victim.state.records.heights, victim.blobs.digests()) == before[1:]


def test_afterwards_the_device_takes_what_is_released_for_it(made: Path, tmp_path: Path) -> None:
    """Nobody is shut out: every refused message was as if it had never come."""
    victim = copy_victim(made, tmp_path / "device")
    for case in CASES:
        attack = case.attack()
        # A root that has expired and that the root keys signed is the fleet's own word.
        if case.fetches == "nothing" and "root: version 3" not in case.says:
            victim.tell(attack)
    assert victim.trusted == SECOND.document
    victim.suffer(Attack(desired(release(6, 3), 3, roots=(), action=101), files_of(3)))
    assert victim.running == manifest_of(3).digest, victim.reason()
    victim.suffer(Attack(desired(release(7, 1), 1, roots=(), action=102), files_of(1)))
    assert victim.running == manifest_of(1).digest, victim.reason()
    victim.close()


def test_there_are_enough_attacks_and_every_role_is_attacked() -> None:
    lines = Counter((case.role, case.line) for case in CASES)
    assert max(lines.values()) == 1
    assert len(lines) >= LEAST_CASES
    roles = Counter(case.role for case in CASES)
    assert set(roles) == {"release key", "root", "coordinator", "device"}
    assert min(roles.values()) >= 5
