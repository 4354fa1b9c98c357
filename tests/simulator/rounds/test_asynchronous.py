"""A simulated fleet that waits for nobody: its ledger gives the model, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened, WeightsAveraged
from fleetledger.learning.networks.network import Network
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.rounds.messages import received
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.simulator.engines import rounds
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.scenario.model import Scenario
from tests.coordinator.replay.stories import replay
from tests.simulator.rounds.small import learn, prepared, small

pytestmark = pytest.mark.torch

ROUNDS = 5
STEPS = 256.0


def scenario(**terms: object) -> Scenario:
    return small(
        devices={"count": 6, "slowest": 12.0},
        rounds={
            "per_stage": ROUNDS,
            "cohort": 4,
            "asynchronous": {"buffer": 2, "server_rate": 0.75, **terms},
        },
    )


@dataclass(frozen=True)
class Learned:
    prepared: Prepared
    home: Path
    records: list[StageRecord]
    told: list[EntryBody]


def learned(folder: Path, **terms: object) -> Learned:
    """A run whose answers are kept."""
    usual = rounds.round_rules
    kept = {"retention": "all", "keep_weights": "all"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "round_rules", lambda *of: usual(*of).model_copy(update=kept))
        fleet = prepared(scenario(**terms))
        records, told = learn(fleet, folder)
    return Learned(fleet, folder / "coordinator", records, told)


@pytest.fixture(scope="module")
def buffered(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learned(tmp_path_factory.mktemp("buffered"))


@pytest.fixture(scope="module")
def mixing(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learned(tmp_path_factory.mktemp("mixing"), combine="mixing", buffer=1)


@pytest.fixture(params=["buffered", "mixing"])
def run(request: pytest.FixtureRequest) -> Learned:
    found: Learned = request.getfixturevalue(request.param)
    return found


def slow_reference(home: Path) -> Iterator[tuple[WeightsAveraged, dict[str, np.ndarray]]]:
    """Follow the entries one by one; sums are Python's integers, without a largest one."""
    opened: dict[int, RoundOpened] = {}
    answers: dict[int, ContributionAccepted] = {}
    versions: list[int] = []
    store = BlobStore(blob_folder(home))
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        read = Blobs(ledger, store).get
        for entry in ledger.entries():
            body = read_entry(entry.kind, entry.body)
            if isinstance(body, NetworkImported):
                own = training_coordinator("rounds").read_assignment(body.settings)
            elif isinstance(body, RoundOpened):
                opened[body.number] = body
            elif isinstance(body, ContributionAccepted):
                answers[entry.index] = body
            elif isinstance(body, WeightsAveraged):
                terms = opened[body.number].buffering
                assert terms is not None

                def begun(number: int, own=own, read=read):  # type: ignore[no-untyped-def]
                    of = opened[number]
                    weights = read(of.weights.digest)
                    return received(own, weights, of.weights_class_names, of.class_names)  # type: ignore[arg-type]

                newest = begun(body.number)
                total = {name: np.zeros(array.shape, object) for name, array in newest.items()}
                samples = 0
                for index in body.inputs:
                    part = answers[index].part
                    assert part.round is not None
                    began = begun(part.round.number)
                    frame = UpdateFrame(began)
                    age = sum(part.round.number <= number < body.number for number in versions)
                    gave = frame.values(read(part.payload))
                    samples += part.round.samples
                    for name, place in frame.grid.places.items():
                        exponent = frame.grid.exponents[name]
                        around = newest[name] if terms.mixes else began[name]
                        steps = np.rint(np.ldexp(around.astype(float), -exponent)).astype(int)
                        far = gave[place].reshape(around.shape).astype(object) - steps
                        # Steps of 2^-100, finer than those of any grid.
                        share = part.round.samples * terms.staleness_weights[age]
                        total[name] = total[name] + far * share * 2 ** (100 + exponent)
                moved = {
                    name: (newest[name] + terms.rate * (_over(one, samples) / STEPS)).astype(
                        np.float32
                    )
                    for name, one in total.items()
                }
                versions.append(body.number)
                yield body, moved


def verified(home: Path) -> str:
    result = CliRunner().invoke(cli.app, ["verify", "--home", str(home)])
    assert result.exit_code == 0, result.output
    return result.output


def _over(total: np.ndarray, samples: int) -> np.ndarray:
    return np.vectorize(lambda one: one / (samples * 2**100), otypes=[float])(total)


def test_every_version_is_that_of_the_slow_reference(run: Learned) -> None:
    with LedgerReader.open_read_only(ledger_path(run.home)) as ledger:
        blobs = Blobs(ledger, BlobStore(blob_folder(run.home)))
        count = 0
        for body, expected in slow_reference(run.home):
            network = training_coordinator("rounds")
            (imported,) = (b for b in run.told if isinstance(b, NetworkImported))
            described = network.read_assignment(imported.settings).network
            assert isinstance(described, Network)
            found, _ = decode_weights(blobs.get(body.weights.digest), described)
            for name, array in expected.items():
                assert np.array_equal(found[name], array), (body.number, name)
            count += 1
    assert count == 2 * ROUNDS


def test_old_answers_count_and_are_told_with_their_age(run: Learned) -> None:
    closed = [body for body in run.told if isinstance(body, RoundClosed)]
    assert any(body.staleness for body in closed)
    opened = [body for body in run.told if isinstance(body, RoundOpened)]
    assert all(body.buffering is not None for body in opened)


def test_the_ledger_verifies_and_makes_every_mean_again(run: Learned) -> None:
    verified(run.home)
    code, out = replay(run.home, "--all")
    lines = [line.split("\t") for line in out.splitlines()[:-1]]
    assert code == 0, out
    assert {line[2] for line in lines} == {"equal"}
    assert sum("phase train" in line[1] for line in lines) == 2 * ROUNDS


def test_the_same_seed_gives_the_same_model(buffered: Learned, tmp_path: Path) -> None:
    again = learned(tmp_path)
    assert [one.head for one in again.records] == [one.head for one in buffered.records]


def test_records_say_when_new_weights_came(run: Learned) -> None:
    for stage in run.records:
        told = [one.fleet_seconds for one in stage.rounds]
        assert len(told) == ROUNDS
        seconds = [one for one in told if one is not None]
        assert seconds == sorted(seconds)
        assert len(seconds) == ROUNDS


def test_answers_and_older_weights_are_deleted_where_nothing_needs_them(tmp_path: Path) -> None:
    fleet = prepared(scenario(buffer=1, max_staleness=1))
    _, told = learn(fleet, tmp_path)
    assert "pruned" in verified(tmp_path / "coordinator")
    kinds = {body.kind for body in told}
    assert {"answers.pruned", "weights.averaged"} <= kinds
