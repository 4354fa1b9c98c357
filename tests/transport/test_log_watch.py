"""Whose password is misused, by lines that Mosquitto 2.0.11 wrote."""

from __future__ import annotations

from fleetledger.transport.access import PasswordMisuse
from fleetledger.transport.brokers.log_watch import MOST_HELD, MOST_OPENED, LogWatch

SECOND = 1_000_000_000
STRANGER = (
    "1795861497: New client connected from 127.0.0.1:42109 as "
    "a (p5, c1, k60, u'dev-2'). (p5, c1, k30, u'dev-1')."
)


def came(client_id: str, user: str) -> str:
    return (
        f"1795861495: New client connected from 127.0.0.1:39633 as {client_id} "
        f"(p5, c1, k30, u'{user}')."
    )


def seen(lines: list[str], gap_ns: int = SECOND) -> tuple[PasswordMisuse, ...]:
    watch = LogWatch()
    for number, line in enumerate(lines):
        watch.read(line, number * gap_ns)
    return watch.found(len(lines) * gap_ns)


def test_programs_of_ours_are_no_sign() -> None:
    lines = []
    for run in range(20):
        for role in ("control", "data"):
            name = f"dev-1.{role}-{run:016x}"
            lines += [came(name, "dev-1"), f"1795861498: Client {name} closed its connection."]
    assert seen(lines, 60 * SECOND) == ()


def test_a_user_under_the_name_of_another_is_named_with_that_name() -> None:
    (found,) = seen([came("coordinator.control", "dev-1"), came("dev-2.data", "dev-1")])
    assert (found.user, found.foreign, found.client_id) == ("dev-1", 2, "dev-2.data")
    assert found.sentence.startswith("dev-1 connected to the broker 2 times under the name of")


def test_a_client_id_cannot_blame_another_user() -> None:
    (found,) = seen([STRANGER])
    assert found.user == "dev-1"
    assert "once under the name of somebody else" in found.sentence
    assert seen(["1795861498: Client 1: " + came("coordinator", "dev-2") + " disconnected."]) == ()


def test_many_sessions_at_a_time_are_a_sign_and_those_that_ended_are_not_counted() -> None:
    names = [f"dev-1.x-{number}" for number in range(MOST_HELD + 1)]
    assert seen([came(name, "dev-1") for name in names[:-1]]) == ()
    (found,) = seen([came(name, "dev-1") for name in names])
    assert found.held == MOST_HELD + 1
    ended = ["closed its connection.", "disconnected.", "has exceeded timeout, disconnecting."]
    lines = []
    for number, name in enumerate(names * 2):
        lines += [came(name, "dev-1"), f"1: Client {name} {ended[number % 3]}"]
    assert seen(lines) == ()


def test_many_connections_in_ten_minutes_are_a_sign() -> None:
    lines = []
    for number in range(MOST_OPENED + 1):
        name = f"dev-1.x-{number}"
        lines += [came(name, "dev-1"), f"1: Client {name} disconnected."]
    (found,) = seen(lines)
    assert found.opened == MOST_OPENED + 1
    assert seen(lines, 10 * SECOND) == ()


def test_the_first_sign_of_a_user_is_told_and_it_is_over_a_day_after_the_last() -> None:
    watch, day = LogWatch(), 86_400 * SECOND
    first = watch.read(came("coordinator", "dev-1"), 0)
    assert first is not None
    assert first.user == "dev-1"
    assert watch.read(came("coordinator", "dev-1"), SECOND) is None
    assert [one.foreign for one in watch.found(day)] == [2]
    assert watch.found(day + 2 * SECOND) == ()


def test_the_coordinators_workers_are_not_too_many() -> None:
    assert seen([came(f"coordinator.intake-{number}", "coordinator") for number in range(67)]) == ()


def test_other_lines_are_passed_over() -> None:
    assert seen(["1795861494: Warning: Mosquitto should not be run as root.", "", "x" * 1000]) == ()
