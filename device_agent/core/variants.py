"""Rules of variants: which file of a frozen part a desired model is fetched and installed with.

- The owner's settings name variants; the first that is offered and has not failed here is taken.
- What is taken is fetched in the place of the frozen file, which is not fetched for the model. A
  device that contributes has it all the same: its assignment names it.
- A variant that does not load, fails its test or does not come is left for the reference, for good;
  the model is not refused because of it. Choosing the reference once lets it be tried again.
- When the settings choose otherwise than what runs, the model is installed once more at the start.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable, Put, action_ended
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, change
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import warning
from fleetledger.device_agent.core.notices import problem, report_happened
from fleetledger.device_agent.core.records import OwnReports
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.variants import VariantName, VariantOffer


def chosen(state: AgentState, action: DesiredModel) -> VariantOffer | None:
    """Return the variant that a desired model is installed with; None for the reference."""
    left = state.records.left_variants
    offered = {item.name: item for item in action.variants if item.frozen.digest not in left}
    return next((offered[name] for name in state.rules.variants if name in offered), None)


def chosen_name(state: AgentState, action: DesiredModel) -> VariantName | None:
    """Return its name; None for the reference."""
    variant = chosen(state, action)
    return None if variant is None else variant.name


def needed_files(state: AgentState, action: DesiredModel) -> tuple[Offer, ...]:
    """Return the offers of the files that a desired model is installed with."""
    variant = chosen(state, action)
    if variant is None:
        return action.files
    return tuple(
        variant.frozen if offer.digest == variant.replaces else offer for offer in action.files
    )


def started(state: AgentState, event: inputs.Started) -> AgentDecision:
    """Install the model that runs once more where another variant of it is to run."""
    forgiven = (
        change(Durable(lambda draft: draft.left_variants.clear()))
        if state.records.left_variants and not state.rules.variants
        else NOTHING_TO_DO
    )
    desired, active = state.records.desired, event.active
    if desired is None or active is None or desired.mode == "shadow":
        return forgiven
    if desired.manifest.digest != active.manifest or desired.action != state.records.acted:
        return forgiven
    if chosen_name(state, desired) == event.variant:
        return forgiven
    return forgiven + change(Put(acted=None))


def left(state: AgentState, event: inputs.VariantLeft, _now: float) -> AgentDecision:
    """Go on with the reference: install it, or say that it runs since the start."""
    models, told = state.models, _told(state, event)
    noted = variant_left_out(event)
    if event.runs is None:
        files = replace(state.files, littered=True)
        return change(noted, told, replace(models, installing=None), files)
    status = ModelStatus(version=event.runs.version, manifest=event.runs.manifest, state="active")
    return change(
        noted,
        replace(models, active=event.runs, variant=None, evaluate=state.rules.evaluates),
        action_ended(None, status),
        replace(told, status=False),
    )


def variant_left_out(event: inputs.VariantLeft) -> Durable:
    """Have models run on the reference instead of a variant that does not run as it should."""

    def write(draft: Draft) -> None:
        draft.left_variants[event.frozen] = event.reason

    text = f"{event.name} is left for the reference: {event.reason}"
    return Durable(
        write, warning("model.variant_left", text, variant=event.name, frozen=event.frozen)
    )


def did_not_come(state: AgentState, variant: VariantOffer, tries: int) -> AgentDecision:
    """Go on with the reference where the file of a variant cannot be fetched."""
    reason = f"its file did not come in {count_of(tries, 'try', 'tries')}"
    event = inputs.VariantLeft(variant.name, variant.frozen.digest, reason)
    noted = variant_left_out(event)
    return change(noted, _told(state, event))


def _told(state: AgentState, event: inputs.VariantLeft) -> OwnReports:
    text = f"{event.name} is left for the reference: {event.reason}"
    return report_happened(state.told, [problem("model", text)], state.rules)
