"""Forms of actions, and carrying them out: a command in the inbox, under the name of who asks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.actions.action import Action, Values
from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.dashboard.answers import Dashboard, frame_of
from fleetledger.coordinator.dashboard.renderer import draw
from fleetledger.coordinator.dashboard.sources import NotThereError
from fleetledger.coordinator.errors import CommandError, OperatorTimeoutError, QuestionError
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.live.file import read_presence
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.program.operator import actor_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.shown_commands import command_at, commands_at
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import explain
from fleetledger.transport.pages.answers import wants_json
from fleetledger.transport.pages.people import Person

ANSWER_SECONDS = 20.0
_NOBODY = (
    "No coordinator runs, so nobody would carry it out now. Start one, or use the command line, "
    "which works without."
)


log = logging.getLogger("dashboard")


class ActionOutcome(Strict):
    """What came of an action."""

    done: bool
    text: str
    asks: bool = False
    """The text is a question, and nothing was done; say it again with `sure` to go on."""


@dataclass(frozen=True)
class _Form:
    """A form as it is shown: what it is for, what is filled in, what came of it."""

    action: Action
    home: Path
    values: Values
    refused: str
    """Why its button does nothing; empty where it works."""
    outcome: ActionOutcome | None = None
    then: tuple[str, ...] = ()
    """On how many devices what happens, as far as one can tell."""

    @property
    def title(self) -> str:
        """What is done, or what came of it."""
        if self.outcome is None or not self.outcome.done:
            return f"{self.action.title}."
        return f"{self.outcome.text[:1].upper()}{self.outcome.text[1:]}."

    @property
    def command_line(self) -> str:
        """What does the same on the command line."""
        return command_at(self.action.command_line(self.values), self.home)


def action_routes() -> list[Route]:
    """Return the routes of all actions."""

    async def show(request: Request) -> Response:
        action = _action(request)
        values = _filled(action, dict(request.query_params))
        return await run_in_threadpool(_drawn, request, action, values)

    async def act(request: Request) -> Response:
        action, person = _action(request), request.state.person
        body = (await request.body()).decode("utf-8", "replace")
        values = _filled(action, dict(parse_qsl(body)))
        if not person.acts:
            outcome, status = ActionOutcome(done=False, text=_viewer(person)), 403
        else:
            home = request.app.state.dashboard.home
            outcome, status = await run_in_threadpool(_carried_out, request, home, action, values)
        _log(person, action, outcome)
        if wants_json(request):
            return JSONResponse(outcome.model_dump(), status)
        return await run_in_threadpool(_drawn, request, action, values, outcome, status)

    return [
        Route("/act/{name}", show),
        Route("/act/{name}", act, methods=["POST"]),
    ]


def _log(person: Person, action: Action, outcome: ActionOutcome) -> None:
    """Say who did what, or was refused it; questions that are asked back are neither."""
    if outcome.asks:
        return
    if outcome.done:
        said = about("action.done", person=person.name, action=action.name)
    else:
        said = about("action.refused", person=person.name, action=action.name)
    level = logging.INFO if outcome.done else logging.WARNING
    log.log(level, "%s: %s: %s", person.name, action.name, outcome.text, extra=said)


def why_not(person: Person, *, serves: bool) -> str:
    """Return why somebody can act on nothing now, in words; empty where they can."""
    if not person.acts:
        return _viewer(person)
    return "" if serves else _NOBODY


def _viewer(person: Person) -> str:
    return f"{person.name} came as a viewer, who sees and does not act; an operator may do this."


def _action(request: Request) -> Action:
    name = request.path_params["name"]
    if name not in ACTIONS:
        raise NotThereError(f"There is no action {name}; there are {', '.join(ACTIONS)}.")
    return ACTIONS[name]


def _filled(action: Action, given: Mapping[str, str]) -> Values:
    known = {field.name for field in action.fields} | {"sure"}
    return {name: text.strip() for name, text in given.items() if name in known and text.strip()}


def _carried_out(
    request: Request, home: Path, action: Action, values: Values
) -> tuple[ActionOutcome, int]:
    dashboard: Dashboard = request.app.state.dashboard
    missing = [
        field.label for field in action.fields if field.required and not values.get(field.name)
    ]
    if missing:
        return ActionOutcome(done=False, text=f"Say also: {', '.join(missing)}."), 400
    try:
        command = action.command(values)
    except ValidationError as error:
        return ActionOutcome(done=False, text=f"{explain(error)}."), 400
    except (FleetledgerError, ValueError) as error:
        return ActionOutcome(done=False, text=str(error)), 400
    if not read_presence(home, dashboard.now_ns()).serves:
        return ActionOutcome(done=False, text=_NOBODY), 409
    if action.asks and "sure" not in values:
        return _question(action, home, values)
    try:
        text = carried_out(
            home,
            command,
            alone=False,
            timeout_seconds=ANSWER_SECONDS,
            actor=actor_of(request.state.person.name),
        ).text
    except QuestionError as question:
        return ActionOutcome(done=False, text=str(question), asks=True), 409
    except CommandError as error:
        return ActionOutcome(done=False, text=str(error)), 409
    except OperatorTimeoutError as error:
        return ActionOutcome(done=False, text=str(error)), 504
    said = commands_at("; ".join((text, *_followed(action, home))), home)
    return ActionOutcome(done=True, text=said), 200


def _question(action: Action, home: Path, values: Values) -> tuple[ActionOutcome, int]:
    try:
        with ledger_of(home) as ledger:
            text = "; ".join(action.preview_lines(home, ledger, values)).replace(".; ", ". ")
    except FleetledgerError as error:
        return ActionOutcome(done=False, text=str(error)), 409
    return ActionOutcome(done=False, text=commands_at(text, home), asks=True), 409


def _preview(action: Action, home: Path, ledger: LedgerReader, values: Values) -> tuple[str, ...]:
    """Return what would happen; nothing as long as what is filled in does not tell."""
    try:
        return tuple(commands_at(line, home) for line in action.preview_lines(home, ledger, values))
    except (FleetledgerError, ValidationError, LookupError, ValueError):
        return ()


def _followed(action: Action, home: Path) -> Iterator[str]:
    """Carry out what follows an action here, where this program can."""
    try:
        yield from action.then(home)
    except FleetledgerError as error:
        yield f"not done here: {error}; run the command where the broker's folder is"


def _drawn(
    request: Request,
    action: Action,
    values: Values,
    outcome: ActionOutcome | None = None,
    status: int = 200,
) -> Response:
    dashboard: Dashboard = request.app.state.dashboard
    serves = read_presence(dashboard.home, dashboard.now_ns()).serves
    with ledger_of(dashboard.home) as ledger:
        then = _preview(action, dashboard.home, ledger, values)
        if outcome is not None and outcome.done and action.name == "rollout-plan":
            newest = state_of(ledger).rollouts.next_number - 1
            values = {**values, "rollout": str(newest)}
    refused = why_not(request.state.person, serves=serves)
    form = _Form(action, dashboard.home, values, refused, outcome, then)
    return HTMLResponse(draw("action.html", frame_of(request), page=form), status)
