"""Answers that wait: how many, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.schemas.values import DeviceId
from fleetledger.transport.block_replies import BlockReplies
from fleetledger.transport.errors import NotConnectedError, QueueFullError
from fleetledger.transport.interface import OutgoingMessage

GREEDY, MODEST = DeviceId("greedy"), DeviceId("modest")


def answer(topic: str, count: int) -> Iterator[OutgoingMessage]:
    return iter([OutgoingMessage(topic, b"block", qos=0) for _ in range(count)])


def sent(replies: BlockReplies, turns: int = 1) -> list[str]:
    topics: list[str] = []
    for _ in range(turns):
        replies.send_some(lambda message: topics.append(message.topic))
    return topics


def test_peers_take_turns_however_many_requests_they_made() -> None:
    replies = BlockReplies()
    for _ in range(8):
        assert replies.add(GREEDY, answer("greedy", 4), 4)
    assert replies.add(MODEST, answer("modest", 4), 4)

    assert sent(replies)[:8] == ["greedy", "modest"] * 4
    assert sent(replies, 9).count("greedy") == 32 - 12
    assert not replies


def test_a_peer_has_room_for_so_many_blocks_in_however_many_requests() -> None:
    replies = BlockReplies()
    assert all(replies.add(GREEDY, answer("greedy", 1)) for _ in range(256))
    assert not replies.add(GREEDY, answer("greedy", 1))
    assert replies.add(MODEST, answer("modest", 64), 64)

    sent(replies, 4)

    assert replies.add(GREEDY, answer("greedy", 1)), "there is room again for what was sent"


def test_there_is_an_end_to_what_waits_for_all_peers() -> None:
    replies = BlockReplies()
    peers = [DeviceId(f"peer-{number}") for number in range(65)]
    assert [replies.add(peer, answer("t", 256), 256) for peer in peers] == [True] * 64 + [False]


def test_what_a_full_queue_refused_is_sent_first_and_a_lost_connection_forgets_all() -> None:
    replies, said = BlockReplies(), []
    replies.add(MODEST, answer("modest", 3), 3)

    def full(message: OutgoingMessage) -> None:
        raise QueueFullError(message.topic, 1, 1)

    def gone(message: OutgoingMessage) -> None:
        said.append(message.topic)
        raise NotConnectedError(message.topic)

    replies.send_some(full)
    assert replies.blocked
    replies.send_some(gone)
    assert said == ["modest"]
    assert not replies
    assert replies.add(MODEST, answer("modest", 256), 256)
