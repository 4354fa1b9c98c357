"""What a run of light agents leaves: a ledger that verifies, memories, bytes that were counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light import batches
from fleetledger.simulator.engines.inprocess.light.batches import AnsweredHere, Lot
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.memories import Memories
from fleetledger.simulator.errors import EngineError
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.rounds.small import prepared, small

pytestmark = pytest.mark.torch

ONE, TWO = DeviceId("device-1"), DeviceId("device-2")


def test_the_ledger_verifies_and_says_that_answers_were_not_kept(tmp_path: Path) -> None:
    light = learn(LightEngine, prepared(small(rounds={"per_stage": 1})), tmp_path)
    home = tmp_path / "coordinator"
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        blobs = Blobs(ledger, BlobStore(blob_folder(home)))
        report = verify(ledger, blobs)
        answers = [body.part for body in light.bodies(ContributionAccepted)]
        assert len(answers) == 6
        for body in answers:
            assert ledger.runs.unkept(body.payload) == body.payload_bytes
            assert not blobs.has(body.payload)
    assert report.ok
    assert set(report.pruned) == {body.payload for body in answers}


def test_bytes_are_nearly_those_of_agents_that_act(tmp_path: Path) -> None:
    what = prepared(small(rounds={"per_stage": 3}))
    timed = learn(InProcessEngine, what, tmp_path / "timed")
    light = learn(LightEngine, what, tmp_path / "light")
    for one, two in zip(timed.records, light.records, strict=True):
        for name, device in one.devices.items():
            assert two.devices[name].bytes_up == pytest.approx(device.bytes_up, rel=0.1)
            assert two.devices[name].bytes_down == pytest.approx(device.bytes_down, rel=0.1)
            assert two.devices[name].compute_seconds > 0


def test_few_answers_are_in_memory_however_many_devices_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []
    hash_lot = AnsweredHere._hash

    def hashed(self: AnsweredHere, lot: Lot) -> None:
        held.append(sum(len(one.added) for one in (lot, *self._hashing)))
        hash_lot(self, lot)

    monkeypatch.setattr(AnsweredHere, "_hash", hashed)
    monkeypatch.setattr(batches, "_BYTES_AT_ONCE", 1)
    learn(LightEngine, prepared(small(devices={"count": 12}, rounds={"per_stage": 1})), tmp_path)
    assert max(held) == 1  # lots so small are hashed at once


def test_memories_outlast_the_process_from_the_round_that_is_done(tmp_path: Path) -> None:
    done, store, index = {1, 2}, BlobStore(tmp_path / "store"), tmp_path / "memories.jsonl"
    memories = Memories(store, index, done.__contains__)
    assert memories.newest(ONE) is None
    before = None
    for number in (1, 2):
        memory = store.put(b"%d" % number)
        memories.written(ONE, number, memory)
        assert memories.newest(ONE) == before
        memories.settle()
        assert memories.newest(ONE) == memory
        before = memory
    memories.written(ONE, 3, store.put(b"of a round that was cut off"))
    memories.close()
    with index.open("a") as file:
        file.write('{"device":"device-1","rou')  # torn, as the process was killed
    found = Memories(store, index, done.__contains__).newest(ONE)
    assert found is not None
    assert store.get(found) == b"2"
    assert [path.name for path in (tmp_path / "store").glob("??/*")] == [found]


def test_a_memory_stays_as_long_as_one_device_of_several_has_it(tmp_path: Path) -> None:
    store, index = BlobStore(tmp_path / "store"), tmp_path / "memories.jsonl"
    memories = Memories(store, index, lambda _: True)
    same = store.put(b"the same")
    memories.written(ONE, 1, same)
    memories.written(TWO, 1, same)
    memories.settle()
    memories.written(ONE, 2, store.put(b"another"))
    memories.settle()
    assert store.has(same)
    memories.written(TWO, 2, store.put(b"a third"))
    memories.settle()
    assert not store.has(same)
    memories.close()


def test_an_index_that_is_none_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "memories.jsonl"
    index.write_text("what is this?\n")
    with pytest.raises(EngineError, match=r"memories\.jsonl: line 1 says nothing of a memory"):
        Memories(BlobStore(tmp_path / "store"), index, lambda _: True)
