"""Teaches a recurrent network to predict the next character, and writes it as ONNX; needs torch.

Each epoch cuts every speaker's text into pieces of `length` characters from an offset that is drawn
anew, and asks for the character after each of a piece's characters; a state begins at zero with
every piece, as it will with every sample. Of every speaker the last tenth is held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from onnx import TensorProto
from torch import Tensor, nn

from fleetledger.export.builder import GraphBuilder, float_value, typed_value
from fleetledger.export.graph import BATCH
from fleetledger.learning.numerics.tokens import alphabet_ids
from fleetledger.schemas.text import TextPreprocessing
from fleetledger.simulator.scenario.backbone import CharacterSettings

EMBEDDING = 32
_BATCH = 32
_RATE = 2e-3
_DROPOUT = 0.25
_PATIENCE = 3
"""Epochs without a better held-out loss, after which learning ends."""
_HELD_OUT = 0.1
_LARGEST_GRADIENT = 1.0
_NOTHING = -1
"""Asks for nothing, in a piece that is shorter than others."""

Arrays = Mapping[str, npt.NDArray[np.float32]]


def language_model(tokens: int, width: int) -> nn.ModuleDict:
    """Return embeddings, a GRU over them, and scores of every next character."""
    return nn.ModuleDict(
        {
            "embedding": nn.Embedding(tokens, EMBEDDING),
            "recurrent": nn.GRU(EMBEDDING, width, batch_first=True),
            "dropout": nn.Dropout(_DROPOUT),
            "scores": nn.Linear(width, tokens),
        }
    )


def scores_after(network: nn.ModuleDict, ids: Tensor) -> Tensor:
    """Return scores (n, length, tokens) of what follows each of (n, length) ids."""
    states = network["recurrent"](network["embedding"](ids))[0]
    return network["scores"](network["dropout"](states))


def learn_encoder(
    settings: CharacterSettings, texts: Sequence[str], preprocessing: TextPreprocessing
) -> bytes:
    """Return the ONNX encoder that has learned from `texts`: ids (N, length) in, (N, width) out."""
    network = learn(settings, texts, preprocessing)
    arrays = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    return encoder_onnx(arrays, preprocessing)


def learn(
    settings: CharacterSettings, texts: Sequence[str], preprocessing: TextPreprocessing
) -> nn.ModuleDict:
    """Return the network whose held-out loss was the least; torch's global seed stays as it was."""
    random = np.random.default_rng(settings.seed)
    known, held_out = _ids(texts, preprocessing)
    tokens = max(alphabet_ids(preprocessing).values()) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = language_model(tokens, settings.width)
        optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
        asked = _pieces(held_out, preprocessing.length, None)
        best, least, worse = _weights(network), np.inf, 0
        for _ in range(settings.epochs):
            _epoch(network, optimiser, _pieces(known, preprocessing.length, random), random)
            loss = _loss_of(network, asked)
            worse = 0 if loss < least else worse + 1
            if loss < least:
                best, least = _weights(network), loss
            if worse == _PATIENCE:
                break
    network.load_state_dict(best)
    network.eval()
    return network


def encoder_onnx(arrays: Arrays, preprocessing: TextPreprocessing) -> bytes:
    """Return embeddings and recurrent layer as ONNX, of opset 17; the last state is the output.

    torch keeps a GRU's gates in the order r, z, n, ONNX in the order z, r, h.
    """
    graph = GraphBuilder()
    width = arrays["recurrent.weight_hh_l0"].shape[1]

    def gates(name: str) -> npt.NDArray[np.float32]:
        r, z, n = np.split(arrays[f"recurrent.{name}_l0"], 3)
        return np.concatenate([z, r, n])

    turned = graph.add("Transpose", preprocessing.input_name, perm=[1, 0])
    table = graph.constant("embedding", arrays["embedding.weight"], np.float32)
    biases = np.concatenate([gates("bias_ih"), gates("bias_hh")])[np.newaxis]
    states = graph.add(
        "GRU",
        graph.add("Gather", table, turned, axis=0),
        graph.constant("from_inputs", gates("weight_ih")[np.newaxis], np.float32),
        graph.constant("from_state", gates("weight_hh")[np.newaxis], np.float32),
        graph.constant("biases", biases, np.float32),
        hidden_size=width,
        linear_before_reset=1,
    )
    last = graph.add("Gather", states, graph.constant("last", -1, np.int64), axis=0)
    features = graph.add("Squeeze", last, graph.constant("direction", [0], np.int64))
    return graph.model(
        [typed_value(preprocessing.input_name, TensorProto.INT64, BATCH, preprocessing.length)],
        [float_value(features, BATCH, width)],
    )


def _ids(
    texts: Sequence[str], preprocessing: TextPreprocessing
) -> tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]:
    """Return the ids of every text, to learn from and held out."""
    table = alphabet_ids(preprocessing)
    known, held_out = [], []
    for text in texts:
        ids = np.array([table[character] for character in text], np.int64)
        cut = len(ids) - round(_HELD_OUT * len(ids))
        known.append(ids[:cut])
        held_out.append(ids[cut:])
    return known, held_out


def _pieces(
    texts: Sequence[npt.NDArray[np.int64]], length: int, random: np.random.Generator | None
) -> npt.NDArray[np.int64]:
    """Return pieces (n, length + 1), every text from a drawn offset on; short texts filled with -1.

    A piece shares its last character with the next one, of which it is the first.
    """
    pieces = []
    for ids in texts:
        first = int(random.integers(0, length)) if random is not None else 0
        for start in range(min(first, max(0, len(ids) - 2)), len(ids) - 1, length):
            piece = np.full(length + 1, _NOTHING, np.int64)
            part = ids[start : start + length + 1]
            piece[: len(part)] = part
            pieces.append(piece)
    return np.stack(pieces)


def _weights(network: nn.ModuleDict) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def _epoch(
    network: nn.ModuleDict,
    optimiser: torch.optim.Optimizer,
    pieces: npt.NDArray[np.int64],
    random: np.random.Generator,
) -> None:
    network.train()
    order = random.permutation(len(pieces))
    for start in range(0, len(order), _BATCH):
        optimiser.zero_grad()
        _loss(network, pieces[order[start : start + _BATCH]]).backward()
        nn.utils.clip_grad_norm_(network.parameters(), _LARGEST_GRADIENT)
        optimiser.step()


def _loss_of(network: nn.ModuleDict, pieces: npt.NDArray[np.int64]) -> float:
    network.eval()
    with torch.no_grad():
        parts = [pieces[start : start + 256] for start in range(0, len(pieces), 256)]
        asked = [int((part[:, 1:] >= 0).sum()) for part in parts]
        losses = [float(_loss(network, part)) for part in parts]
    return float(np.average(losses, weights=asked))


def _loss(network: nn.ModuleDict, pieces: npt.NDArray[np.int64]) -> Tensor:
    given = torch.from_numpy(pieces)
    scores = scores_after(network, given[:, :-1].clamp(min=0))
    return nn.functional.cross_entropy(
        scores.flatten(0, 1), given[:, 1:].flatten(), ignore_index=_NOTHING
    )
