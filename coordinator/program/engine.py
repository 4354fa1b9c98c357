"""The core on its ledger: decide, apply, commit; only then are requests carried out.

A group of inputs becomes one transaction. While it cannot be committed it waits as it was decided,
and `commit` tries again: that costs what the group costs, however long the history is. The core's
state is ahead of the disk by this one group, so nothing else is decided and nothing carried out
before it is committed. A crash loses it, as if none of its inputs had come.

The times of entries never go back: after a start with a calendar behind the last entry's, time
goes on from there, until the operator says that the calendar is right. What expires is judged by
the calendar itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.decision import Decision
from fleetledger.coordinator.core.done_commands import CommandDone
from fleetledger.coordinator.core.entry import NewEntry
from fleetledger.coordinator.core.inputs import AnswersStored, DeviceMessage, Input
from fleetledger.coordinator.core.requests import AnswerOperator, ForgetInvitation, Request
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state_fold import folded, keep_snapshot
from fleetledger.coordinator.core.work import PackImported, PrepareAdapter
from fleetledger.coordinator.errors import EntryError, LedgerLockedError, SnapshotError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft, settled
from fleetledger.coordinator.ledger.keys import note_signer
from fleetledger.coordinator.ledger.run_finding import in_runs
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.ledger.store import Ledger, SignNote
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.program.operator import AnswersCommands, CommandAnswer, OperatorInbox
from fleetledger.coordinator.settings import CoordinatorSettings, load
from fleetledger.coordinator.topics.contributions.accepted_answers import AcceptedAnswers
from fleetledger.coordinator.topics.releases.rules import SignRelease
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.coordinator.trust.release_key import release_signer
from fleetledger.methods.registry import can_learn
from fleetledger.runtime.log_lines import about
from fleetledger.schemas.values import Digest

log = logging.getLogger("coordinator")

_LONG = 50_000
"""Entries that are read again at no further start: a second or two of reading."""


@dataclass(eq=False)
class _Group:
    """A group that is in the core's state, and on the disk once it is committed."""

    now_ns: int
    """When the next of its entries is made."""
    small_blobs: Mapping[Digest, bytes] | None
    pruned: Mapping[Digest, int] | None
    entries: list[NewEntry | AcceptedAnswers] = field(default_factory=list)
    drafts: list[EntryDraft | EntryRun] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)


class LedgerEngine:
    """A coordinator's core whose state is the ledger's; the ledger's one writer."""

    def __init__(
        self,
        ledger: Ledger,
        rules: Rules,
        *,
        clock: Callable[[], int] = time.time_ns,
        calendar: Callable[[], int] | None = None,
        sign_release: SignRelease | None = None,
    ) -> None:
        """Go on from what a ledger holds.

        `clock` gives entries their times; `calendar` may be set meanwhile, and is the clock if left
        out.
        """
        self.ledger = ledger
        self._rules = rules
        self._clock = clock
        self._calendar = calendar or clock
        self._sign_release = sign_release
        self._last_ns = 0
        """When the last entry was made that lay in the ledger at the start."""
        self._decided: _Group | None = None
        """The group that could not be committed yet."""
        self.on_commit: Callable[[int, Sequence[NewEntry]], None] | None = None
        """Called after a commit with the index of its first entry, and its entries."""
        self.around_commit: Callable[[], AbstractContextManager[object]] = nullcontext
        """What is entered while a group is written, for who wants to know how long that takes."""
        self.snapshot_size = 0
        """Entries that were in the newest snapshot of the state at the start."""
        self._core = self._windows()
        self._ahead_ns = max(0, self._last_ns - clock())

    @classmethod
    def open(
        cls,
        home: Path,
        rules: Rules,
        *,
        clock: Callable[[], int] = time.time_ns,
        calendar: Callable[[], int] | None = None,
        sign_note: SignNote | None = None,
        sign_release: SignRelease | None = None,
    ) -> LedgerEngine:
        """Open or make the ledger in `home`; raise `LedgerLockedError` if another one writes."""
        ledger = Ledger.open(ledger_path(home), clock=clock, sign_note=sign_note)
        return cls(ledger, rules, clock=clock, calendar=calendar, sign_release=sign_release)

    @property
    def core(self) -> Core:
        """The core as it is now."""
        return self._core

    @property
    def ahead_ns(self) -> int:
        """By how much entries are ahead of the calendar; below 0 where they are behind."""
        return self._clock() + self._ahead_ns - self._calendar()

    @property
    def last_ns(self) -> int | None:
        """When the last entry was made that the ledger had at the start; None of an empty one."""
        return self._last_ns or None

    @property
    def waits(self) -> bool:
        """Whether a group is decided and not committed; `commit` it before the next one."""
        return self._decided is not None

    def process(
        self,
        happenings: Iterable[Input | AnswersStored],
        small_blobs: Mapping[Digest, bytes] | None = None,
        pruned: Mapping[Digest, int] | None = None,
    ) -> list[Request]:
        """Decide about a group of inputs and commit what was decided; return what is to be done.

        `small_blobs` are committed with it; `pruned` are blobs of so many bytes that were used and
        not kept. Raises `LedgerWriteError` if the group cannot be committed now; it waits then.
        After any other error the core may know what the ledger does not: end the program.
        """
        assert self._decided is None, "what waits is committed first"
        self._core.live.calendar_ns = self._calendar()
        group = _Group(self._clock() + self._ahead_ns, small_blobs, pruned)
        for happening in happenings:
            if not isinstance(happening, AnswersStored):
                self._take(happening, group)
            elif not self._accept(happening, group):
                for one in happening.singly:
                    self._take(one, group)
        self._decided = group
        return self.commit()

    def _take(self, happening: Input, group: _Group) -> None:
        """Decide about one input, and take in what was decided."""
        decision, drafts = self._decision(happening, group.now_ns)
        group.requests.extend(_with_entries(decision, self._core.state.size))
        for entry, draft in zip(decision.entries, drafts, strict=True):
            before = self._core.state.clock.set_back_ns
            group.requests.extend(self._core.apply(entry, group.now_ns))
            group.entries.append(entry)
            group.drafts.append(draft._replace(time_ns=group.now_ns))
            by_ns = self._core.state.clock.set_back_ns - before
            group.now_ns -= by_ns
            self._ahead_ns -= by_ns

    def _accept(self, stored: AnswersStored, group: _Group) -> bool:
        """Take in answers that are decided together; return whether they are."""
        run = self._core.intake.answers(stored.answers) if len(stored.answers) > 1 else None
        if run is None:
            return False
        try:
            group.drafts.append(run.written(group.now_ns))
        except EntryError:
            return False  # deciding each alone tells whose it is
        group.entries.append(run)
        self._core.take_answers(run, group.now_ns)
        return True

    def _decision(self, happening: Input, now_ns: int) -> tuple[Decision, list[EntryDraft]]:
        """Return what the core decides, with entries that the ledger takes.

        Where it would not take one, nothing of the decision counts, and the core decides about
        that. A message on which the rules end is refused in the same way: it would come again
        after every start.
        """
        try:
            decision = self._core.handle(happening, now_ns)
            return decision, [settled(_draft(entry, now_ns)) for entry in decision.entries]
        except (EntryError, ValidationError) as error:
            reason = str(error)
        except Exception as error:
            if not isinstance(happening, DeviceMessage):
                raise
            log.exception("a message of %s could not be judged", happening.device)
            reason = f"message: the coordinator could not judge it ({type(error).__name__})"
        log.error("not recorded: %s", reason, extra=about("entry.not_recorded"))
        decision = self._core.not_recorded(happening, reason, now_ns)
        return decision, [settled(_draft(entry, now_ns)) for entry in decision.entries]

    def commit(self) -> list[Request]:
        """Commit the group that waits; return what is to be done now, nothing where none waits.

        Raises what `process` raises.
        """
        decided = self._decided
        if decided is None:
            return []
        first = self.ledger.size
        with self.around_commit():
            drafts = in_runs(decided.drafts)
            self.ledger.append(drafts, decided.small_blobs, decided.pruned)
        self._decided = None
        if self.on_commit is not None:
            self.on_commit(first, tuple(_one_by_one(decided.entries)))
        return decided.requests

    def close(self) -> None:
        """Close the ledger and let another process write."""
        self.ledger.close()

    def _windows(self) -> Core:
        state, read = folded(self.ledger, forget=True)
        self.snapshot_size = state.size - read
        if read >= _LONG:
            try:
                keep_snapshot(self.ledger, state)
                self.snapshot_size = state.size
            except SnapshotError as error:
                log.warning("%s", error)
        self._last_ns = state.last_ns
        return Core(self._rules, can_learn, sign_release=self._sign_release, state=state)


def carry_out_waiting(home: Path) -> bool:
    """Carry out the operator's commands here, if no coordinator runs; return whether it did."""
    try:
        settings = load(home)
        engine = LedgerEngine.open(
            home,
            settings.rules,
            sign_note=note_signer(home, settings.fleet),
            sign_release=release_signer(home, settings),
        )
    except LedgerLockedError:
        return False
    inbox = OperatorInbox(home)
    try:
        for waiting in inbox.waiting():
            requests = engine.process([waiting])
            answer_operator(inbox, requests)
            for request in requests:
                if isinstance(request, ForgetInvitation):
                    Invitations(home).forget(request.invitation)
                if isinstance(request, PackImported | PrepareAdapter):
                    finished = _made(home, settings, request)
                    engine.process([finished.happening], finished.small_blobs)
    finally:
        inbox.close()
        engine.close()
    return True


def _made(
    home: Path, settings: CoordinatorSettings, request: PackImported | PrepareAdapter
) -> Finished:
    """Make what a command needs, which a running coordinator's worker does."""
    from fleetledger.coordinator.models.model_maker import ModelMaker  # noqa: PLC0415 - onnx is heavy

    return ModelMaker(home, BlobStore(settings.blobs or blob_folder(home))).make(request)


def _one_by_one(entries: Iterable[NewEntry | AcceptedAnswers]) -> Iterator[NewEntry]:
    for entry in entries:
        yield from entry.entries if isinstance(entry, AcceptedAnswers) else (entry,)


def _with_entries(decision: Decision, first: int) -> Iterator[Request]:
    """Return the requests of a decision; answers to the operator name its entries, from `first`."""
    made = tuple(
        first + place
        for place, entry in enumerate(decision.entries)
        if not isinstance(entry.body, CommandDone)
    )
    for request in decision.requests:
        if isinstance(request, AnswerOperator) and request.done:
            yield replace(request, entries=made)
        else:
            yield request


def answer_operator(inbox: AnswersCommands, requests: Sequence[Request]) -> None:
    """Write the answers among the requests into the inbox."""
    for request in requests:
        if isinstance(request, AnswerOperator):
            answer = CommandAnswer(request.done, request.text, request.asks, request.entries)
            inbox.answer(request.ticket, answer)


def _draft(entry: NewEntry, now_ns: int) -> EntryDraft:
    return EntryDraft(
        kind=entry.body.kind,
        actor=entry.actor,
        body=entry.body.model_dump(mode="json"),
        device=entry.device,
        blobs=entry.body.blobs,
        time_ns=now_ns,
        plain=True,
    )
