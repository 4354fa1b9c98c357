"""Problems and their dates: since when, until when, and gone with recovery."""

from pathlib import Path

from fleetledger.runtime import shown_commands
from fleetledger.runtime.problems import PAST_SECONDS, OpenProblem, ProblemBook

SECOND = 10**9
FULL = OpenProblem("files", "the disk is full", hinders=True, key="trouble")
AWAY = OpenProblem("broker", "no answer", hinders=True, patience=60.0, key="away")


def look(book: ProblemBook, now: float, *problems: OpenProblem):
    return book.update(problems, now, round(now * SECOND))


def test_a_problem_has_the_date_of_its_beginning_and_then_that_of_its_end() -> None:
    book = ProblemBook()
    look(book, 10.0, FULL)
    look(book, 50.0, FULL)
    (problem,) = book.current
    assert (problem.since_ns, problem.until_ns) == (10 * SECOND, None)
    _, over = look(book, 60.0)
    assert book.current == ()
    assert [(item.since_ns, item.until_ns) for item in over] == [(10 * SECOND, 60 * SECOND)]
    assert list(book.past) == over


def test_a_text_that_changes_begins_no_other_problem() -> None:
    book = ProblemBook()
    look(book, 10.0, FULL)
    look(book, 20.0, OpenProblem("files", "3 bytes are free", hinders=True, key="trouble"))
    (problem,) = book.current
    assert (problem.text, problem.since_ns) == ("3 bytes are free", 10 * SECOND)


def test_what_is_over_within_its_patience_was_no_problem() -> None:
    book = ProblemBook()
    assert look(book, 10.0, AWAY) == ([], [])
    assert look(book, 69.0, AWAY) == ([], [])
    assert look(book, 69.5) == ([], [])
    assert book.past == ()


def test_what_outlasts_its_patience_is_told_once_since_its_beginning() -> None:
    book = ProblemBook()
    look(book, 10.0, AWAY)
    (told,), _ = look(book, 70.0, AWAY)
    assert (told.hinders, told.since_ns) == (True, 10 * SECOND)
    assert look(book, 80.0, AWAY) == ([], [])
    assert len(look(book, 90.0)[1]) == 1


def test_what_hinders_comes_first_and_then_the_newest() -> None:
    book = ProblemBook()
    look(book, 1.0, OpenProblem("sample", "old"))
    look(book, 2.0, OpenProblem("sample", "old"), FULL)
    look(book, 3.0, OpenProblem("sample", "old"), FULL, OpenProblem("sample", "new"))
    assert [item.text for item in book.current] == ["the disk is full", "new", "old"]


def test_what_has_happened_has_one_date_and_leaves_after_a_day() -> None:
    book = ProblemBook()
    book.happened(OpenProblem("ledger", "shorter"), 5.0, 5 * SECOND)
    look(book, 6.0)
    (past,) = book.past
    assert past.since_ns == past.until_ns
    assert str(past).startswith("at ")
    look(book, 5.0 + PAST_SECONDS)
    assert book.past == ()


def test_commands_in_a_problem_find_the_home_that_was_given(monkeypatch) -> None:
    monkeypatch.setattr(shown_commands, "_given", {})
    shown_commands.remember_home(shown_commands.ON_DEVICES, Path("/srv/crane"))
    book, told = ProblemBook(), OpenProblem("key", "run `fleetledger agent enrol`")
    look(book, 10.0, told)
    book.happened(told, 11.0, 11 * SECOND)
    book.happened(told, 12.0, 12 * SECOND)
    wanted = "run `fleetledger agent enrol --home /srv/crane`"
    assert [item.text for item in (*book.current, *book.past)] == [wanted, wanted]
