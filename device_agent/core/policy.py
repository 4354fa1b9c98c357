"""Rules of the owner's policy: what may leave this device, whoever asks.

A method's descriptor says what it has devices send. What the policy forbids is not computed, and
what was computed before it was forbidden stays in the outbox, unsent. The device says once per
stage that it gives nothing, and why, so that nobody waits for it. Gradients for a proxy are no part
of an answer:
a device that keeps them to itself trains and answers like any other. So does one that shares no
images: it declines the phase that asks for them, and no other. What becomes of its images it says
in words with the first assignment, before anybody asks.

In the same way a device declines what is of no use with the samples that lie on it: a method that
gives pixels classes where there are no masks, and any other where there are scenes. So it does what
it cannot: a method or a network of a distribution that is not installed here, or has other code.
And what would spend more of its privacy than its owner, or the fleet's budget, allows is not made:
what was sent has been read, so the coordinator's refusal would come too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from fleetledger.device_agent.core.records import GivenPart
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.kinds import KINDS, NOTHING
from fleetledger.learning.privacy.accounting import Spending, epsilon_of
from fleetledger.methods.descriptor import Descriptor
from fleetledger.methods.registry import descriptor
from fleetledger.methods.requirements import unable
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, PartKey, PayloadKind
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.proxy import PrototypeGradients

_FEATURES: PayloadKind = "features"
_IMAGES: PayloadKind = "images"


RESTART = "restart the agent"
"""What is to be done once a distribution is installed."""


def declines(rules: AgentRules, assignment: Assignment, phase: str = "") -> str:
    """Return why this device gives nothing for an assignment; empty where it may and can."""
    return (
        unable_to(assignment)
        or refusal(rules, assignment.method, phase)
        or _unmasked(rules, assignment)
        or beyond_limit(rules, assignment)
    )


def asks_masks(assignment: Assignment) -> bool:
    """Whether numbers are to be summed behind masks."""
    return assignment.privacy is not None and assignment.privacy.masks is not None


def _unmasked(rules: AgentRules, assignment: Assignment) -> str:
    """Return why what is asked does not hide enough; empty where it does."""
    masks = None if assignment.privacy is None else assignment.privacy.masks
    if masks is None:
        if rules.privacy.masks != "required":
            return ""
        return (
            "privacy.masks = 'required': this device gives nothing that is not summed behind "
            "masks, and the coordinator asks for it as it is; its operator sets "
            "[privacy] masks = true, or the device's owner decides in agent.toml"
        )
    if masks.most < rules.privacy.least_cohort:
        return (
            f"privacy.least_cohort = {rules.privacy.least_cohort}: cohorts of this fleet have at "
            f"most {masks.most} members, and this device is summed with no fewer; its owner "
            "decides in agent.toml"
        )
    return ""


def beyond_limit(rules: AgentRules, assignment: Assignment) -> str:
    """Return why the noise that an assignment asks for is too little; empty where it is enough."""
    limits, noise = rules.privacy, noise_of(assignment)
    if noise is not None and find_spec("opendp") is None:
        return (
            "privacy: opendp is not installed here, and the fleet's noise is drawn by it; pip "
            f"install 'fleetledger[privacy]' and {RESTART}"
        )
    if noise is not None and noise.sharers > _sure_members(assignment):
        return (
            f"privacy: the fleet's noise is shared by {noise.sharers} members of a cohort, and a "
            f"sum has only {count_of(_sure_members(assignment), 'member')} for sure; the operator "
            "sets [privacy] masks, least and noise.sharers"
        )
    if limits.max_epsilon is None:
        return ""
    said = "this device's owner decides in agent.toml"
    if noise is None:
        return (
            f"privacy.max_epsilon = {limits.max_epsilon:g}: this device gives only what has noise "
            f"of differential privacy, and the fleet asks for none; {said}"
        )
    if noise.epsilon <= limits.max_epsilon and noise.delta <= limits.max_delta:
        return ""
    return (
        f"privacy.max_epsilon = {limits.max_epsilon:g} at max_delta = {limits.max_delta:g}: the "
        f"fleet would spend epsilon {noise.epsilon:g} at delta {noise.delta:g} of this device's "
        f"privacy; {said}"
    )


def _sure_members(assignment: Assignment) -> int:
    masks = None if assignment.privacy is None else assignment.privacy.masks
    return 1 if masks is None else masks.least_honest


def noise_of(assignment: Assignment) -> Noise | None:
    """Return the noise that an assignment asks for; None for none."""
    return None if assignment.privacy is None else assignment.privacy.noise


def overspends(assignment: Assignment, given: Mapping[PartKey, GivenPart], key: PartKey) -> str:
    """Return why a part would spend more than the budget; empty where it would not.

    Every revision of a part counts, as if it had had this noise. An image is in one part at a time,
    so what counts of it is each revision that left, and one part that it may be in.
    """
    noise = noise_of(assignment)
    if noise is None:
        return ""
    made = {of: part.revision + (part.state != "withdrawn") for of, part in given.items()}
    left = {
        of: count - (given[of].state != "withdrawn" and of != key) for of, count in made.items()
    }
    times = 1 + sum((left if noise.protects == "image" else made).values())
    after = epsilon_of([Spending(noise.multiplier, times)], noise.delta)
    if after <= noise.epsilon * (1 + 1e-9):
        return ""
    return (
        f"privacy: another part would spend epsilon {after:.3g} of {noise.epsilon:g} at delta "
        f"{noise.delta:g}; this device gives nothing more until the fleet's budget is another"
    )


def unable_to(assignment: Assignment) -> str:
    """Return what is to be installed here for an assignment; empty where everything is."""
    return unable(assignment.method, assignment.requires, RESTART)


def refusal(rules: AgentRules, method: str, phase: str = "") -> str:
    """Return why this device gives nothing for a method, or in a phase; empty where it may.

    Whether the method can be had here at all, `unable_to` says.
    """
    known = _descriptor(method)
    if known is None:
        return ""
    if unsuited := _unsuited(rules, known):
        return unsuited
    if not rules.policy.publish_features and _FEATURES in known.payload_kinds:
        return (
            "policy.publish_features = false: this device does not publish features; "
            f"method {method!r} needs them, and the device's owner decides in agent.toml"
        )
    if not rules.policy.publish_images and known.kind_of(phase) == _IMAGES:
        return (
            "policy.publish_images = false: this device shares no images; phase "
            f"{phase!r} of method {method!r} would send images of its folder, unlabelled, to the "
            "coordinator and from there to every device. Its owner decides in agent.toml; the "
            "fleet can do without, by shared_set = 'public'"
        )
    return ""


def _unsuited(rules: AgentRules, known: Descriptor) -> str:
    """Return why what lies on this device is of no use to a method; empty where it is."""
    kind = KINDS.get(rules.samples)
    if kind is NOTHING:
        return (
            "data.samples = 'none': this device only runs models and has nothing to learn from; "
            "its owner decides in agent.toml"
        )
    if kind is None or known.segments == kind.masked:
        return ""
    if known.segments:
        return (
            f"data.samples = {kind.name!r}: method {known.name!r} gives every pixel a class, "
            "and this device has no masks; its owner sets 'scenes' in agent.toml and puts images, "
            "masks and classes.toml there"
        )
    return (
        f"data.samples = {kind.name!r}: method {known.name!r} gives samples a class as a whole, "
        "and this device has scenes, which show several; its owner sets 'pictures' in agent.toml "
        "and puts folders of classes there"
    )


def images_asked(rules: AgentRules, assignment: Assignment) -> str:
    """Return in words what becomes of this device's images; empty where nobody asks for them."""
    known = _descriptor(assignment.method)
    if known is None:
        return ""
    phase = next((name for name in assignment.phases if known.kind_of(name) == _IMAGES), None)
    if phase is None:
        return ""
    return refusal(rules, assignment.method, phase) or (
        f"policy.publish_images = true: in phase {phase!r} of method {assignment.method!r} images "
        "of this device's folder leave it as they are, without their classes; the coordinator "
        "keeps them and gives them to every device of the fleet"
    )


def publishes_gradients(rules: AgentRules, method: str) -> bool:
    """Whether this device keeps gradients for a proxy: the method has one, and the owner agrees."""
    known = _descriptor(method)
    return known is not None and known.proxy and rules.policy.publish_gradients


def withheld(rules: AgentRules, method: str) -> str:
    """Return why a method's proxy gets no gradients from this device; empty where it may."""
    known = _descriptor(method)
    if known is None or not known.proxy or rules.policy.publish_gradients:
        return ""
    return (
        "policy.publish_gradients = false: this device sends the proxy no gradients; it trains for "
        f"method {method!r} and answers without them, and its owner decides in agent.toml"
    )


def may_send(rules: AgentRules, body: Contribution | PrototypeGradients) -> bool:
    """Whether a payload may leave this device."""
    if rules.privacy.masks == "required" and getattr(body, "cohort", None) is None:
        return False
    if isinstance(body, PrototypeGradients):
        return rules.policy.publish_gradients
    allowed = {_FEATURES: rules.policy.publish_features, _IMAGES: rules.policy.publish_images}
    return allowed.get(body.payload_kind, True)


def _descriptor(method: str) -> Descriptor | None:
    try:
        return descriptor(method)
    except FleetledgerError:
        return None
