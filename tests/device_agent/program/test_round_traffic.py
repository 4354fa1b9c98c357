"""Bytes are charged to the round that was asked for while they crossed."""

from fleetledger.device_agent.program.round_traffic import KEPT, RoundTraffic
from fleetledger.transport.meter import Counts


def total(up: int, down: int) -> Counts:
    return Counts(bytes_up=up, bytes_down=down)


def test_a_round_has_what_crossed_until_the_next_assignment() -> None:
    traffic = RoundTraffic()
    assert traffic.by_round(total(5, 7)) == {}
    traffic.turn_to(1, total(10, 20))
    assert traffic.by_round(total(11, 25)) == {1: total(1, 5)}
    traffic.turn_to(2, total(110, 220))
    traffic.turn_to(None, total(150, 300))
    assert traffic.by_round(total(9999, 9999)) == {1: total(100, 200), 2: total(40, 80)}


def test_the_same_order_again_begins_no_new_round() -> None:
    traffic = RoundTraffic()
    traffic.turn_to(4, total(0, 0))
    traffic.turn_to(4, total(10, 10))
    assert traffic.by_round(total(30, 30)) == {4: total(30, 30)}


def test_a_round_that_comes_back_goes_on_and_counts_as_newest() -> None:
    traffic = RoundTraffic()
    for number, at in ((1, 0), (2, 10), (1, 30)):
        traffic.turn_to(number, total(at, 0))
    assert list(traffic.by_round(total(35, 0)).items()) == [(2, total(20, 0)), (1, total(15, 0))]


def test_only_the_newest_rounds_are_remembered() -> None:
    traffic = RoundTraffic()
    for number in range(1, 31):
        traffic.turn_to(number, total(number, 0))
    assert list(traffic.by_round(total(31, 0))) == list(range(31 - KEPT, 31))
