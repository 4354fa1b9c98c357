"""The transformer with adapters against torchvision's, and its adapters against the formula."""

import pytest
import safetensors.torch
import torch
from torch import nn

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.learning.networks.weights_file import read_tensors
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Sgd, Work
from tests.learning.networks.reference import torchvision_module
from tests.learning.training.agents import slow_mask

pytestmark = pytest.mark.torch

TINY = VisionTransformer(16, 4, width=12, blocks=2, heads=3, hidden=20, adapter=5)
NETWORK = Network(TINY)
TOKENS = 17


def double(tensors):
    return {name: value.double() for name, value in tensors.items()}


BASE = double(to_tensors(initial_arrays(TINY.base_plan(), 3))[0])
FIRST = double(to_tensors(NETWORK.initial(3, ["a", "b"]))[0])
PICTURES = torch.randn(7, 3, 16, 16, generator=torch.Generator().manual_seed(0)).double()


def moved_adapters():
    """Return adapters and head away from their zeros."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: value + 0.3 * torch.randn(value.shape, generator=generator).double()
        for name, value in FIRST.items()
    }


def torchvisions():
    module = torchvision_module("models").vision_transformer.VisionTransformer(
        16, 4, num_layers=2, num_heads=3, hidden_dim=12, mlp_dim=20
    )
    module.heads = nn.Identity()
    module.load_state_dict(BASE)
    return module.double()


def slow_features(adapters, drops):
    """Return the features by torchvision's modules, the adapters written as printed."""
    module = torchvisions()
    values = module._process_input(PICTURES)
    first = module.class_token.expand(len(values), -1, -1)
    values = torch.cat([first, values], dim=1) + module.encoder.pos_embedding
    for number, block in enumerate(module.encoder.layers):
        name = f"encoder.layers.encoder_layer_{number}.adapter"
        w_down, b_down = adapters[f"{name}.down.weight"].T, adapters[f"{name}.down.bias"]
        w_up, b_up = adapters[f"{name}.up.weight"].T, adapters[f"{name}.up.bias"]
        normalised = block.ln_1(values)
        attended, _ = block.self_attention(normalised, normalised, normalised)
        x = values + attended
        adapted = 0.1 * (torch.relu(x @ w_down + b_down) * drops[number]) @ w_up + b_up
        values = x + block.mlp(block.ln_2(x)) + adapted
    return module.encoder.ln(values)[:, 0]


def test_at_first_the_adapters_leave_torchvisions_network_as_it_is():
    ours = forward(NETWORK, {**BASE, **FIRST}, {}, PICTURES, Mode())
    assert torch.allclose(ours.features, torchvisions().eval()(PICTURES), atol=1e-12)
    assert ours.logits.shape == (7, 2)


def test_adapters_stand_beside_the_mlp_as_printed():
    adapters = moved_adapters()
    ours = forward(NETWORK, {**BASE, **adapters}, {}, PICTURES, Mode())
    assert torch.allclose(ours.features, slow_features(adapters, (1, 1)), atol=1e-12)
    assert not torch.allclose(ours.features, torchvisions()(PICTURES), atol=1e-2)


def test_dropout_stands_between_the_adapters_layers_with_its_rate():
    asked = []

    def drop(values, rate, layer):
        asked.append((tuple(values.shape), rate, layer))
        return values * (layer + 2)

    adapters = moved_adapters()
    ours = forward(NETWORK, {**BASE, **adapters}, {}, PICTURES, Mode(True, dropout=drop))
    assert asked == [((7, TOKENS, 5), 0.1, 0), ((7, TOKENS, 5), 0.1, 1)]
    assert torch.allclose(ours.features, slow_features(adapters, (2, 3)), atol=1e-12)


def test_adapters_begin_as_the_paper_says():
    arrays = build_network("vit_b_16", (3, 224, 224)).initial(0, [])
    name = "encoder.layers.encoder_layer_11.adapter"
    down = arrays[f"{name}.down.weight"]
    assert down.shape == (64, 768)
    assert abs(down).max() == pytest.approx(768**-0.5, rel=1e-3)
    assert arrays[f"{name}.up.weight"].shape == (768, 64)
    for zero in ("down.bias", "up.weight", "up.bias"):
        assert not arrays[f"{name}.{zero}"].any()
    assert sum("adapter" in name for name in arrays) == 12 * 4


def test_updates_of_low_rank_are_those_of_the_matrices_of_queries_and_values():
    body = VisionTransformer(16, 4, width=12, blocks=2, heads=3, hidden=20, lora=3)
    network = Network(body)
    first = double(to_tensors(network.initial(3, ["a", "b"]))[0])
    module = torchvisions()
    ours = forward(network, {**BASE, **first}, {}, PICTURES, Mode())
    assert torch.allclose(ours.features, module.eval()(PICTURES), atol=1e-12)
    generator = torch.Generator().manual_seed(1)
    moved = {n: torch.randn(v.shape, generator=generator).double() for n, v in first.items()}
    with torch.no_grad():
        for number, block in enumerate(module.encoder.layers):
            for part, rows in (("query", slice(0, 12)), ("value", slice(24, 36))):
                name = f"encoder.layers.encoder_layer_{number}.lora_{part}"
                update = moved[f"{name}.up.weight"] @ moved[f"{name}.down.weight"]
                block.self_attention.in_proj_weight[rows] += update
    ours = forward(network, {**BASE, **moved}, {}, PICTURES, Mode())
    assert torch.allclose(ours.features, module(PICTURES), atol=1e-10)
    assert not any("adapter" in name for name in first)


def test_forty_steps_train_adapters_and_head_alone_as_torchs_optimiser():
    data = Data(PICTURES, torch.arange(7) % 2)
    work = Work(
        FIRST,
        {},
        data,
        ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),)),
        Sgd((0.05,) * 20, momentum=0.9),
        Batching(4),
        Chance(1, "a"),
        frozen={FIXED: BASE},
    )
    trained = train_alone(work, TrainingEngineSettings())
    assert trained.steps == 40
    assert trained.parameters.keys() == FIRST.keys()
    leaves = {name: value.clone().requires_grad_() for name, value in FIRST.items()}
    optimiser = torch.optim.SGD(leaves.values(), 0.05, momentum=0.9)
    for epoch in range(20):
        order = torch.from_numpy(work.chance.shuffled(epoch, 7))
        for batch, rows in enumerate(order.split(4)):
            drops = [
                slow_mask(work.chance, (epoch, batch, layer), (len(rows) * TOKENS, 5), 0.1)
                for layer in (0, 1)
            ]
            mode = Mode(True, dropout=lambda v, _, layer, d=drops: v * d[layer].reshape(v.shape))
            logits = forward(NETWORK, {**BASE, **leaves}, {}, PICTURES[rows], mode).logits
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, data.targets[rows]).backward()
            optimiser.step()
    for name, value in leaves.items():
        assert torch.allclose(trained.parameters[name], value, atol=1e-12), name


def test_the_base_has_the_tensors_of_torchvisions_vit_b_16():
    models = torchvision_module("models")
    with torch.device("meta"):
        theirs = models.vit_b_16().state_dict()
    wanted = {name: tuple(v.shape) for name, v in theirs.items() if not name.startswith("heads")}
    body = build_network("vit_b_16", (3, 224, 224)).body
    assert {plan.name: plan.shape for plan in body.base_plan()} == wanted


def older(name):
    return name.replace("mlp.0", "mlp.linear_1").replace("mlp.3", "mlp.linear_2")


@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_the_base_is_read_from_a_file_also_with_older_names(tmp_path, ending):
    path = tmp_path / f"base.{ending}"
    content = {older(name): value for name, value in BASE.items()} | {"heads.x": torch.ones(1)}
    save = safetensors.torch.save_file if ending == "safetensors" else torch.save
    save(content, path)
    read = read_tensors(path, TINY.base_plan())
    assert read.keys() == BASE.keys()
    assert all(torch.equal(read[name], BASE[name].float()) for name in BASE)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({**BASE, "class_token": torch.zeros(1)}, r"'class_token' in .* is \(1,\), not \(1, 1, 12"),
        ({"other": torch.zeros(1)}, "is missing, not"),
        ([torch.zeros(1)], "more than named tensors"),
        ({"class_token": "text"}, "more than named tensors"),
        ({"class_token": pytest.importorskip}, "damaged or holds more than tensors"),
    ],
)
def test_a_file_without_the_base_is_refused(tmp_path, content, told):
    path = tmp_path / "base.pth"
    torch.save(content, path)
    with pytest.raises(NetworkError, match=told):
        read_tensors(path, TINY.base_plan())


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(NetworkError, match="cannot be read"):
        read_tensors(tmp_path / "absent.pth", TINY.base_plan())
    (tmp_path / "torn.safetensors").write_bytes(b"torn")
    with pytest.raises(NetworkError, match="damaged"):
        read_tensors(tmp_path / "torn.safetensors", TINY.base_plan())
