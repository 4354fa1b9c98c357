"""Terms on anchors in whole losses: what they look at, and training alone and in a stack."""

from dataclasses import replace

import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.anchor_terms import (
    EnsembleDistillation,
    MarginRanking,
    Relation,
    Topology,
)
from fleetledger.learning.losses.balanced_terms import OldClassDistillation
from fleetledger.learning.losses.binary import binary_cross_entropy
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.ensemble import ensemble_distillation
from fleetledger.learning.losses.ranking import margin_ranking
from fleetledger.learning.losses.relation import drawn_triples, relation
from fleetledger.learning.losses.terms import CrossEntropy, Divergence, FeatureAngle
from fleetledger.learning.losses.topology import topology
from fleetledger.learning.networks.held_rows import joined_rows, split_rows
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.training.chance import Chance, StepChance, signed
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.work import Batch, Data, Sgd
from tests.learning.training.agents import (
    CLASSES,
    INPUTS,
    largest_difference,
    make_data,
    make_works,
    tensors,
)

pytestmark = pytest.mark.torch

NETWORK = Network(Mlp(INPUTS, (8, 5)), "cosine")
PARAMETERS, BUFFERS = tensors(NETWORK, torch.float64)
PARAMETERS["head.scale"] = torch.tensor(3.0).double()
OLD, OLD_BUFFERS = tensors(NETWORK, torch.float64, seed=1)
OLD["head.weight"] = OLD["head.weight"][:2]
DATA = make_data(12, torch.float64, 1)
ANCHORS = (torch.arange(12) % 2).double()
LOGITS = torch.linspace(-3, 3, 12 * CLASSES).double().reshape(12, CLASSES)
MOMENT = StepChance.derived(torch.tensor(signed(Chance(1, "a").key)), 2, 3)
BATCH = Batch(
    DATA.inputs,
    DATA.targets,
    torch.ones(12).double(),
    {"anchor": ANCHORS, "ensemble": LOGITS},
    words=MOMENT.loss_words,
)
NEW = torch.arange(CLASSES) >= 2
FROZEN = {"old": {"parameters": OLD, "buffers": OLD_BUFFERS}, "new": NEW}
OUT = forward(NETWORK, PARAMETERS, BUFFERS, DATA.inputs, Mode(training=True))
TAUGHT = forward(NETWORK, OLD, OLD_BUFFERS, DATA.inputs, Mode())
ALL = torch.ones(12).double()
BOTH = (OUT.features, TAUGHT.features)

WANTED = {
    MarginRanking("new"): margin_ranking(OUT.logits / 3, DATA.targets, ALL, NEW),
    MarginRanking("new", 1, 0.9): margin_ranking(OUT.logits / 3, DATA.targets, ALL, NEW, 1, 0.9),
    Relation("old", triples=30): relation(*BOTH, *drawn_triples(MOMENT.loss_words(30), ALL)),
    Relation("old", "anchor"): relation(*BOTH, *drawn_triples(MOMENT.loss_words(512), ANCHORS)),
    Topology("old"): topology(*BOTH, ALL),
    Topology("old", "anchor", fewest=6): topology(*BOTH, ANCHORS),
    EnsembleDistillation("ensemble"): ensemble_distillation(OUT.logits, LOGITS, ALL),
    EnsembleDistillation("ensemble", 2.0, "new", "sum"): ensemble_distillation(
        OUT.logits, LOGITS, ALL, 2.0, NEW, "sum"
    ),
    OldClassDistillation("old", "anchor"): binary_cross_entropy(
        OUT.logits[:, :2], TAUGHT.logits.sigmoid(), ANCHORS
    ),
}


def value_of(term, batch=BATCH, **frozen):
    loss = ComposedLoss(NETWORK, (Weighted(2.0, term),))
    return float(loss(PARAMETERS, BUFFERS, FROZEN | frozen, {}, batch)[0])


@pytest.mark.parametrize("term", WANTED, ids=repr)
def test_a_term_is_its_function_of_the_pass(term):
    assert value_of(term) == pytest.approx(2 * float(WANTED[term]), rel=1e-12)
    assert value_of(term) != 0


def test_marking_anchors_leaves_the_others_out():
    for term in (Relation("old"), Topology("old", fewest=6), OldClassDistillation("old")):
        assert value_of(replace(term, rows="anchor")) != value_of(term)


@pytest.mark.parametrize(
    ("term", "least"),
    [(Relation("old", "anchor"), 3), (Topology("old", "anchor"), 8)],
    ids=["relation", "topology"],
)
def test_too_few_anchors_have_no_loss(term, least):
    for anchors in range(13):
        some = {**BATCH.extras, "anchor": (torch.arange(12) < anchors).double()}
        assert (value_of(term, replace(BATCH, extras=some)) != 0) == (anchors >= least)


def test_triples_need_chance():
    with pytest.raises(TrainingError, match="set words"):
        value_of(Relation("old"), replace(BATCH, words=None))


def test_triples_are_drawn_anew_in_each_step():
    later = StepChance.derived(MOMENT.keys.keys, 2, 4)
    assert value_of(Relation("old"), replace(BATCH, words=later.loss_words)) != value_of(
        Relation("old")
    )


def learners():
    yield "iCaRL-CNN", (Weighted(5.0, Divergence("old", 2.0, rows="anchor")),)
    yield "iCaRL", (Weighted(5.0, OldClassDistillation("old", "anchor")),)
    yield (
        "LUCIR",
        (
            Weighted(5.0, FeatureAngle("old", "anchor")),
            Weighted(1.0, MarginRanking("new")),
        ),
    )
    yield "ERDIL", (Weighted(100.0, Relation("old", "anchor")),)
    yield "TPCIL", (Weighted(15.0, Topology("old", "anchor", fewest=3)),)
    yield "ensemble", (Weighted(1.0, EnsembleDistillation("ensemble", classes="new")),)


@pytest.mark.parametrize("learner", dict(learners()))
def test_agents_train_in_a_stack_as_alone(learner):
    terms = (Weighted(1.0, CrossEntropy()), *dict(learners())[learner])
    works = []
    for work in make_works((37, 8, 3, 16), epochs=2, loss=ComposedLoss(NETWORK, terms)):
        rows = torch.arange(len(work.data))
        extras = {
            "anchor": (rows % 2).double(),
            "ensemble": torch.sin(rows[:, None] + torch.arange(CLASSES)).double(),
        }
        trained, fixed = split_rows(PARAMETERS, 2)
        works.append(
            replace(
                work,
                parameters=trained,
                buffers=BUFFERS,
                data=Data(work.data.inputs, work.data.targets, extras),
                frozen=FROZEN | {FIXED: fixed},
            )
        )
    settings = TrainingEngineSettings()
    for work, made in zip(works, train_stacked(works, settings), strict=True):
        alone = train_alone(work, settings)
        assert largest_difference(made.parameters, alone.parameters) < 1e-9
        assert made.losses == pytest.approx(alone.losses, rel=1e-9)


def test_held_rows_stay_and_the_others_train_as_if_they_were_all_there():
    data = Data(DATA.inputs, DATA.targets)
    terms = (Weighted(1.0, CrossEntropy()), Weighted(1.0, MarginRanking("new")))
    (whole,) = make_works((12,), loss=ComposedLoss(NETWORK, terms))
    whole = replace(
        whole,
        parameters=PARAMETERS,
        buffers=BUFFERS,
        data=data,
        frozen=FROZEN,
        optimiser=Sgd((0.1,), momentum=0.9, weight_decay=0.1),
        batching=replace(whole.batching, size=12),
    )
    trained, fixed = split_rows(PARAMETERS, 2)
    held = replace(whole, parameters=trained, frozen=FROZEN | {FIXED: fixed})
    one = train_alone(whole, TrainingEngineSettings()).parameters
    other = joined_rows(fixed, train_alone(held, TrainingEngineSettings()).parameters)
    assert torch.equal(other["head.weight"][:2], PARAMETERS["head.weight"][:2])
    assert not torch.equal(one["head.weight"][:2], PARAMETERS["head.weight"][:2])
    for rows in (one, other):
        rows["head.weight"] = rows["head.weight"][2:]
    assert largest_difference(other, one) < 1e-12
