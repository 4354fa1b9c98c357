"""Networks that nobody here wrote: what a person brings, as factories of torch modules."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from tests.learning.networks.reference import torchvision_module


def group_norm_cnn(shape, width=8):
    """A CNN with GroupNorm, SiLU, convolutions without bias, and an average pool."""
    return nn.Sequential(
        nn.Conv2d(shape[0], width, 3, padding=1, bias=False),
        nn.GroupNorm(2, width),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.GroupNorm(2, 2 * width),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def mobilenet_v3_small(shape, momentum=0.01):
    """torchvision's, without its last layer; dropout and batch norms with its own momentum."""
    norm = partial(nn.BatchNorm2d, eps=0.001, momentum=momentum)
    made = torchvision_module("models").mobilenet_v3_small(weights=None, norm_layer=norm)
    made.features[0][0] = nn.Conv2d(shape[0], 16, 3, 2, 1, bias=False)
    made.classifier[3] = nn.Identity()
    return made


def vit(shape, width=24):
    """torchvision's ViT, small: class token, attention, LayerNorm, GELU."""
    transformer = torchvision_module("models").VisionTransformer
    made = transformer(shape[-1], shape[-1] // 4, 2, 3, width, 2 * width, num_classes=1)
    made.conv_proj = nn.Conv2d(shape[0], width, shape[-1] // 4, shape[-1] // 4)
    made.heads = nn.Identity()
    return made


class Windows(nn.Module):
    """A 1-D CNN over windows (n, channels, steps), dilated, with batch normalisation."""

    def __init__(self, channels, width=12):
        super().__init__()
        self.first = nn.Conv1d(channels, width, 5, padding=2)
        self.norm = nn.BatchNorm1d(width, momentum=0.2)
        self.second = nn.Conv1d(width, width, 3, padding=2, dilation=2, groups=2)
        self.head = nn.Linear(width, 10, bias=False)

    def forward(self, windows):
        values = torch.relu(self.norm(self.first(windows)))
        return self.head((values + self.second(values)).mean(-1))


def conv1d(shape, width=12):
    return Windows(shape[0], width)


class Sequence(nn.Module):
    """An LSTM over steps (n, steps, channels), with a skip by concatenation."""

    def __init__(self, channels, width=9):
        super().__init__()
        self.lstm = nn.LSTM(channels, width, batch_first=True)

    def forward(self, steps):
        outputs, _ = self.lstm(steps)
        return torch.cat([outputs[:, -1], steps.mean(1)], dim=1)


def lstm(shape, width=9):
    return Sequence(shape[-1], width)


class Normed(nn.Module):
    """The LSTM over windows (n, channels, steps), whose channels a batch norm makes alike."""

    def __init__(self, channels, width):
        super().__init__()
        self.norm, self.sequence = nn.BatchNorm1d(channels), Sequence(channels, width)

    def forward(self, windows):
        return self.sequence(self.norm(windows).transpose(1, 2))


def lstm_of_channels(shape, width=9):
    return Normed(shape[0], width)


class Tokens(nn.Module):
    """An embedding of whole numbers, self-attention behind it, dropout, and an own buffer."""

    def __init__(self, steps, words=16, width=12, dropout=0.2):
        super().__init__()
        self.words = words
        self.embedding = nn.Embedding(words, width)
        self.attention = nn.MultiheadAttention(width, 3, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("places", torch.linspace(0, 1, steps)[:, None])
        self.register_buffer("order", torch.arange(steps).flip(0))

    def forward(self, numbers):
        tokens = self.embedding(numbers.long() % self.words) + self.places
        tokens = tokens[:, self.order]
        return self.dropout(self.attention(tokens, tokens, tokens)[0].mean(1))


def tokens(shape, dropout=0.2):
    return Tokens(shape[0], dropout=dropout)


def batch_norm_cnn(shape, width=8):
    """What a stack takes apart from the networks of the package: batch norms, no chance."""
    return nn.Sequential(
        nn.Conv2d(shape[0], width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(width * (shape[1] // 2) * (shape[2] // 2), 12),
        nn.BatchNorm1d(12, affine=False),
    )


OUTSIDE = {
    "group_norm_cnn": (group_norm_cnn, (1, 8, 8)),
    "mobilenet_v3_small": (mobilenet_v3_small, (3, 32, 32)),
    "vit": (vit, (3, 16, 16)),
    "conv1d": (conv1d, (3, 32)),
    "lstm": (lstm, (12, 3)),
    "tokens": (tokens, (7,)),
    "batch_norm_cnn": (batch_norm_cnn, (1, 8, 8)),
}
"""Factories, and the shape of a sample that each is tried with."""
