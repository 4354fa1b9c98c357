"""What docs/text.md says: every field, its examples, and the wrapper for encoders of ids."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.settings import AgentDataSettings
from fleetledger.export.backbone import import_backbone
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.text import MAX_ALPHABET, MAX_TOKENS, MAX_VOCABULARY, TextPreprocessing

PAGE = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")
LENGTH, WIDTH = 128, 8


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def described(folder: Path, text: str) -> TextPreprocessing:
    path = folder / "encoder.toml"
    path.write_text(text, encoding="utf-8")
    found = load_preprocessing(path)
    assert isinstance(found, TextPreprocessing)
    return found


def test_every_field_and_every_bound_is_described() -> None:
    assert [name for name in TextPreprocessing.model_fields if f"| `{name}` |" not in PAGE] == []
    assert all(f"{bound:,}" in PAGE for bound in (MAX_ALPHABET, MAX_VOCABULARY))
    assert str(MAX_TOKENS) in PAGE


def test_the_examples_of_descriptions_are_accepted(tmp_path: Path) -> None:
    characters, agent, ids = blocks("toml")
    assert described(tmp_path, characters).shape == (64,)
    assert described(tmp_path, ids).shape == (LENGTH,)
    assert 'samples = "text"' in agent
    assert AgentDataSettings(folder=Path("data"), samples="text").samples == "text"


def small_transformer(torch: Any) -> Any:
    """An encoder with the face of Hugging Face's: ids and mask in, `last_hidden_state` out."""

    class Small(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(40, WIDTH)
            self.query = torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            rows = self.table(input_ids)
            scores = self.query(rows) @ rows.transpose(1, 2)
            hidden = scores.masked_fill(attention_mask[:, None, :] == 0, -1e9)
            return SimpleNamespace(last_hidden_state=hidden.softmax(dim=-1) @ rows)

    torch.manual_seed(1)
    return Small()


@pytest.mark.torch
@pytest.mark.parametrize("translated", [None, list(range(39, -1, -1))])
def test_the_wrapper_makes_a_backbone_that_does_not_look_at_padding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translated: list[int] | None
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    stand_in = ModuleType("transformers")
    encoder = small_transformer(torch)
    stand_in.AutoModel = SimpleNamespace(  # type: ignore[attr-defined]
        from_pretrained=lambda _name, **_options: encoder
    )
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)
    if translated is not None:
        network = names["Pooled"](encoder, translated=[0, *translated[1:]])
        names["write_encoder"](network, LENGTH, "bert.onnx")
    spec = described(tmp_path, blocks("toml")[2]).model_copy(update={"vocabulary": 40})
    backbone = import_backbone((tmp_path / "bert.onnx").read_bytes(), spec)
    assert backbone.feature_width == WIDTH
    ids = [3, 17, 38]
    table = [0, *translated[1:]] if translated is not None else list(range(40))
    rows = encoder.table.weight.detach().numpy()[[table[number] for number in ids]]
    query, bias = (part.detach().numpy() for part in (encoder.query.weight, encoder.query.bias))
    scores = (rows @ query.T + bias) @ rows.T
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (shares / shares.sum(axis=1, keepdims=True) @ rows).mean(axis=0)
    given = preprocess(" ".join(map(str, ids)).encode(), spec)[np.newaxis]
    (features,) = LoadedModel(backbone.model).run({"ids": given}).values()
    np.testing.assert_allclose(features[0], expected, rtol=1e-5, atol=1e-6)
