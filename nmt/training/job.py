"""What a training process is told: one JSON file that the stage writes and every rank reads."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt.config import ScoreSettings, TokenizeSettings, TrainSettings
from nmt.decoding.export import TextSettings
from nmt.model.shape import ModelShape


class Job(BaseModel):
    """Settings and paths of one training."""

    model_config = ConfigDict(frozen=True)

    train: TrainSettings
    decode: ScoreSettings
    tokenize: TokenizeSettings
    source: str
    target: str
    seed: int
    vocabulary_size: int
    work: Path  # checkpoints, metrics and TensorBoard events go here
    data: Path  # output of shuffle
    codes: Path
    vocabulary: Path
    dev_source: Path  # raw text
    dev_target: Path
    export: Path  # where the finished model goes

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        sizes = self.train
        return ModelShape(self.vocabulary_size, sizes.layers, sizes.width, sizes.heads, sizes.feed_forward)

    @property
    def text(self) -> TextSettings:
        """What a translator must know about the text."""
        return TextSettings(source=self.source, target=self.target, tokenize=self.tokenize)
