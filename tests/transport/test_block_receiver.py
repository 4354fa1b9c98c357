"""A transfer without a network: what goes wrong is done to it here, and the clock is a number."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.offers import MIN_BLOCK_SIZE, BlockData, BlockRequest, Offer
from fleetledger.schemas.values import Digest
from fleetledger.transport.block_receiver import BlockReceiver, FailedFetch, FetchedFile
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import BlockError
from fleetledger.transport.part_file import PartFile

Answer = tuple[BlockData, bytes]
Network = Callable[[list[Answer]], list[Answer]]
BLOCK = MIN_BLOCK_SIZE
DELAY = 0.02


def data_of(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def perfect(answers: list[Answer]) -> list[Answer]:
    return answers


def bad_network(seed: int) -> Network:
    """Drops and repeats every fifth answer, flips a byte in some, and shuffles the rest."""
    chance = random.Random(seed)

    def carry(answers: list[Answer]) -> list[Answer]:
        arrived = [
            (label, flipped(block, 0) if chance.random() < 0.05 else block)
            for label, block in answers
            for _ in range(2 if chance.random() < 0.2 else 1)
            if chance.random() >= 0.2
        ]
        chance.shuffle(arrived)
        return arrived

    return carry


def flipped(block: bytes, at: int) -> bytes:
    return block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]


def begin(offer: Offer, directory: Path, now: float = 0.0, seconds: float = 600) -> BlockReceiver:
    return BlockReceiver(offer, directory / "data", now=now, deadline=now + seconds)


def steps(
    receiver: BlockReceiver, source: BlockSource, network: Network = perfect, now: float = 0.0
) -> Iterator[float]:
    """Carry requests and answers until the transfer ends; yields the time after each round."""
    while receiver.outcome is None:
        answers = [a for request in receiver.requests(now) for a in source.answer(request)]
        for label, block in network(answers):
            now += DELAY / 10
            receiver.receive(label, block, now)
        now = max(now + DELAY, min(receiver.next_time(now), now + 60))
        yield now


def run(receiver: BlockReceiver, source: BlockSource, network: Network = perfect) -> float:
    now = 0.0
    for now in steps(receiver, source, network):  # noqa: B007 - the last time is wanted
        pass
    return now


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK, 300 * BLOCK + 17])
def test_data_of_any_size_arrives_intact(tmp_path: Path, size: int) -> None:
    data = data_of(size)
    source = BlockSource(data, BLOCK)
    receiver = begin(source.offer, tmp_path)

    run(receiver, source)

    assert receiver.outcome == FetchedFile(tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_file_is_served_like_the_bytes_in_it(tmp_path: Path) -> None:
    data = data_of(5 * BLOCK + 3)
    path = tmp_path / "origin"
    path.write_bytes(data)
    from_file, from_memory = BlockSource(path, BLOCK), BlockSource(data, BLOCK)

    assert from_file.offer == from_memory.offer
    run(begin(from_file.offer, tmp_path), from_file)
    assert (tmp_path / "data").read_bytes() == data


@pytest.mark.parametrize("seed", range(5))
def test_loss_repetition_disorder_and_corruption_do_no_harm(tmp_path: Path, seed: int) -> None:
    data = data_of(3000 * BLOCK)
    source = BlockSource(data, BLOCK)
    receiver = begin(source.offer, tmp_path)

    run(receiver, source, bad_network(seed))

    assert receiver.outcome == FetchedFile(tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == data
    assert receiver.counts.corrupt > 0
    assert receiver.counts.unwanted > 0
    assert receiver.counts.asked < 1.7 * (3000 + 24)


@given(seed=st.integers(0, 10**6), restarts=st.lists(st.integers(1, 12), max_size=6))
@settings(max_examples=25)
def test_restarts_and_flipped_bytes_in_the_part_file_do_no_harm(
    tmp_path_factory: pytest.TempPathFactory, seed: int, restarts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("restarts")
    data = data_of(40 * BLOCK + 5, seed)
    source = BlockSource(data, BLOCK)
    network = bad_network(seed)
    chance = random.Random(seed)
    part = directory / "data.part"
    for rounds in restarts:
        receiver = begin(source.offer, directory)
        for _, _ in zip(range(rounds), steps(receiver, source, network), strict=False):
            pass
        receiver.abandon("power cut")
        if part.exists():
            torn = bytearray(part.read_bytes())
            for _ in range(5):
                torn[chance.randrange(len(torn))] ^= 255
            part.write_bytes(torn[: chance.randint(1, len(torn))])

    last = begin(source.offer, directory)
    run(last, source, network)

    assert last.outcome == FetchedFile(directory / "data")
    assert (directory / "data").read_bytes() == data


def test_a_restart_fetches_only_what_is_missing(tmp_path: Path) -> None:
    data = data_of(100 * BLOCK)
    source = BlockSource(data, BLOCK)
    part = tmp_path / "data.part"
    part.write_bytes(data[: 60 * BLOCK] + bytes(40 * BLOCK))
    part.write_bytes(flipped(part.read_bytes(), 10 * BLOCK + 1))

    receiver = begin(source.offer, tmp_path)
    run(receiver, source)

    assert receiver.outcome == FetchedFile(tmp_path / "data")
    assert (receiver.counts.resumed, receiver.counts.accepted) == (59, 41 + 1)


def test_data_that_is_already_there_is_not_fetched_again(tmp_path: Path) -> None:
    source = BlockSource(data_of(BLOCK), BLOCK)
    (tmp_path / "data").write_bytes(data_of(BLOCK))

    receiver = begin(source.offer, tmp_path)

    assert receiver.outcome == FetchedFile(tmp_path / "data")
    assert receiver.requests(0.0) == []


def test_an_endless_outage_ends_at_the_deadline_with_a_reason(tmp_path: Path) -> None:
    source = BlockSource(data_of(20 * BLOCK), BLOCK)
    receiver = begin(source.offer, tmp_path, seconds=30)

    def dying(answers: list[Answer]) -> list[Answer]:
        return [answer for answer in answers if answer[0].section == "list"]

    ended = run(receiver, source, dying)

    assert isinstance(receiver.outcome, FailedFetch)
    assert "deadline" in receiver.outcome.reason
    assert "20 data blocks missing after 30.0 s" in receiver.outcome.reason
    assert 30 <= ended <= 31
    assert (tmp_path / "data.part").exists()
    assert not (tmp_path / "data").exists()


def test_an_offer_with_another_list_digest_is_given_up_with_a_reason(tmp_path: Path) -> None:
    source = BlockSource(data_of(3 * BLOCK), BLOCK)
    lying = source.offer.model_copy(update={"list_digest": Digest.of(b"something else")})
    receiver = begin(lying, tmp_path)

    run(receiver, source)

    assert isinstance(receiver.outcome, FailedFetch)
    assert receiver.outcome.reason.startswith("list_digest:")
    assert list(tmp_path.iterdir()) == []


def test_an_offer_that_contradicts_itself_is_given_up_and_leaves_no_file(tmp_path: Path) -> None:
    source = BlockSource(data_of(3 * BLOCK), BLOCK)
    wrong = Digest.of(b"something else")
    receiver = begin(source.offer.model_copy(update={"digest": wrong}), tmp_path)

    for request in receiver.requests(0.0):
        for _, block in source.answer(request.model_copy(update={"digest": source.offer.digest})):
            label = BlockData(digest=wrong, section="list", index=0)
            receiver.receive(label, block, 0.1)
    for index in range(3):
        receiver.requests(0.2)
        label = BlockData(digest=wrong, section="data", index=index)
        receiver.receive(label, data_of(3 * BLOCK)[index * BLOCK : (index + 1) * BLOCK], 0.3)

    assert isinstance(receiver.outcome, FailedFetch)
    assert "contradicts itself" in receiver.outcome.reason
    assert list(tmp_path.iterdir()) == []


def test_a_full_or_forbidden_disk_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    source = BlockSource(data_of(BLOCK), BLOCK)
    (tmp_path / "data.part").mkdir()
    receiver = begin(source.offer, tmp_path)

    run(receiver, source)

    assert isinstance(receiver.outcome, FailedFetch)
    assert "cannot write beside" in receiver.outcome.reason


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": 0}, "size"),
        ({"size": 4 * 1024**3 + 1}, "size"),
        ({"block_size": 4095}, "block_size"),
        ({"block_size": 256 * 1024 + 1}, "block_size"),
        ({"size": 4 * 1024**3, "block_size": 4096}, "offer larger blocks"),
        ({"list_digest": "abc"}, "list_digest"),
        ({"extra": 1}, "extra"),
    ],
)
def test_offers_out_of_bounds_are_refused(change: dict[str, object], named: str) -> None:
    good = BlockSource(b"data").offer.model_dump()

    with pytest.raises(ValueError, match=named):
        Offer.model_validate({**good, **change})


def test_requests_are_bounded_and_answered_only_for_the_offered_blocks() -> None:
    source = BlockSource(data_of(2 * BLOCK), BLOCK)
    request = BlockRequest(
        digest=source.offer.digest, block_size=BLOCK, section="data", indices=(0, 1, 2, 99)
    )

    assert [label.index for label, _ in source.answer(request)] == [0, 1]
    with pytest.raises(BlockError, match="blocks of 8192"):
        next(source.answer(request.model_copy(update={"block_size": 8192})))
    with pytest.raises(SchemaError, match="indices"):
        BlockRequest.read({**request.model_dump(), "indices": list(range(65))})


def test_a_file_that_vanished_cannot_be_served(tmp_path: Path) -> None:
    path = tmp_path / "origin"
    path.write_bytes(data_of(BLOCK))
    source = BlockSource(path, BLOCK)
    path.unlink()
    request = BlockRequest(
        digest=source.offer.digest, block_size=BLOCK, section="data", indices=(0,)
    )

    with pytest.raises(BlockError, match="cannot be served any more"):
        next(source.answer(request))


def test_a_lost_connection_is_answered_by_asking_again_at_once(tmp_path: Path) -> None:
    source = BlockSource(data_of(30 * BLOCK), BLOCK)
    receiver = begin(source.offer, tmp_path)
    (first,) = receiver.requests(0.0)
    assert receiver.requests(1.0) == []

    receiver.reconnected(1.0)

    assert receiver.requests(1.0) == [first.model_copy(update={"repeated": 1})]


def test_a_late_answer_is_still_taken(tmp_path: Path) -> None:
    source = BlockSource(data_of(30 * BLOCK), BLOCK)
    receiver = begin(source.offer, tmp_path)
    (first,) = receiver.requests(0.0)
    receiver.reconnected(1.0)

    for label, block in source.answer(first):
        receiver.receive(label, block, 1.1)

    assert receiver.counts.accepted == 1


def lying(label: BlockData, blocks: bytes, index: int) -> bytes:
    """Return a message with another byte in a block of the data, where it is in there."""
    at = (index - label.index) * BLOCK
    lies = label.section == "data" and 0 <= at < len(blocks)
    return flipped(blocks, at) if lies else blocks


def receive_all(receiver: BlockReceiver, source: BlockSource, wrong: int = -1) -> int:
    """Answer every request, once with a wrong block; return with how many messages."""
    now, messages = 0.0, 0
    while receiver.outcome is None:
        for request in receiver.requests(now):
            for label, blocks in source.answer(request):
                messages += 1
                sent = lying(label, blocks, wrong)
                wrong = wrong if sent == blocks else -1
                receiver.receive(label, sent, now)
        now += 0.001
    return messages


def test_a_quick_link_brings_blocks_together_and_a_slow_one_each_alone(tmp_path: Path) -> None:
    source = BlockSource(data_of(400 * BLOCK), BLOCK)
    quick = begin(source.offer, tmp_path)
    assert receive_all(quick, source) < 60
    assert isinstance(quick.outcome, FetchedFile)
    slow = begin(source.offer, tmp_path / "slow")
    now = 0.0
    while slow.outcome is None:
        for request in slow.requests(now):
            for label, blocks in source.answer(request):
                assert len(blocks) <= BLOCK
                now += 0.1
                slow.receive(label, blocks, now)
        now += 0.01


def test_bytes_are_hashed_once_where_blocks_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = BlockSource(data_of(100 * BLOCK + 5), BLOCK)
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *what: read.append(what[1]) or pread(*what))
    receive_all(begin(source.offer, tmp_path), source)
    assert read == []


def test_a_wrong_block_is_found_at_the_end_and_asked_for_again(tmp_path: Path) -> None:
    source = BlockSource(data_of(8 * BLOCK), BLOCK)
    receiver = begin(source.offer, tmp_path)
    receive_all(receiver, source, wrong=2)
    assert isinstance(receiver.outcome, FetchedFile)
    assert (tmp_path / "data").read_bytes() == data_of(8 * BLOCK)
    assert receiver.counts.corrupt == 1


def test_after_a_wrong_one_each_block_is_held_to_the_list_as_it_comes(tmp_path: Path) -> None:
    source = BlockSource(data_of(4 * BLOCK), BLOCK)
    receiver = begin(source.offer, tmp_path, seconds=20)
    now = 0.0
    while receiver.outcome is None:
        for request in receiver.requests(now):
            for label, blocks in source.answer(request):
                receiver.receive(label, lying(label, blocks, 1), now)
        now += 1.0
    assert isinstance(receiver.outcome, FailedFetch)
    assert "1 of 4 data blocks missing" in receiver.outcome.reason
    assert receiver.counts.accepted == 4, "three, and the list"


@given(order=st.permutations(range(9)))
@settings(max_examples=30)
def test_blocks_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    data = data_of(8 * BLOCK + 9)
    offer = BlockSource(data, BLOCK).offer
    folder = tmp_path_factory.mktemp("order")
    part = PartFile(offer, folder / "data")
    for index in order:
        assert not part.is_right()
        part.write(index, data[index * BLOCK : (index + 1) * BLOCK])
    assert part.is_right()
    assert part.finish().read_bytes() == data
