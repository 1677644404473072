"""An experiment's settings: one class per stage, one `Experiment` that holds them.

A file in `config/` holds only what differs from the defaults below; `nmt.settings_file` reads it. A key that is not
here is refused.

A field made with `speed(...)` changes how fast a stage works and not what it writes, so it is no part of
the stage's key. `train.steps` is special in its own way: asking for more of them continues the training.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from nmt.errors import ConfigError, choices

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "config"
NAME = r"^[a-z0-9][a-z0-9._-]*$"

StageName = Literal["preflight", "download", "clean", "tokenize", "learn_bpe", "shuffle", "train", "score", "report"]


def data_folder() -> Path:
    """Where the store and the runs are: `$WMTFLOW_DATA`, else `data/` of this checkout."""
    return Path(os.environ.get("WMTFLOW_DATA") or ROOT / "data").absolute()


def cache_folder() -> Path:
    """Where what was compiled is kept, outside any checkout; scripts/setup.py, which cannot import this, agrees."""
    folder = os.environ.get("WMTFLOW_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "wmtflow")
    return Path(folder).expanduser()


def require_data_folder() -> None:
    """Make the data folder if need be; refuse one that cannot be written to."""
    folder = data_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"the data folder {folder} cannot be written to: {error.strerror}. Name another: export WMTFLOW_DATA=FOLDER"
        ) from None


def speed(default: Any, description: str, **limits: Any) -> Any:
    """A field that changes only how fast a stage works."""
    return Field(default, description=description, json_schema_extra={"speed": True}, **limits)


class Settings(BaseModel):
    """Base of all settings: frozen, and strict about names."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_bool_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation in (int, float):
            raise ValueError("input should be a valid integer or number, not true or false")
        return value

    def key_settings(self) -> dict[str, Any]:
        """What takes part in a stage's key: every field but those that change only speed, as plain JSON."""
        return self.model_dump(mode="json", exclude=self._speed_fields())

    def _speed_fields(self) -> set[str]:
        extras = ((name, field.json_schema_extra) for name, field in type(self).model_fields.items())
        return {name for name, extra in extras if isinstance(extra, dict) and extra.get("speed")}


class PreflightSettings(Settings):
    """What the machine is checked for before anything is spent."""

    free_disk_gb: float = Field(0.0, ge=0, description="free disk to insist on, above the estimate")


class ParallelFiles(Settings):
    """Two text files whose lines belong together."""

    source: Path = Field(description="text in the source language, one sentence a line")
    target: Path = Field(description="its translation, line by line")

    @field_validator("source", "target")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()


class DownloadSettings(Settings):
    """Where the text comes from: the built-in grammar, your own files, or a corpus of config/corpora."""

    corpus: str = Field("builtin", description="'builtin', 'files', or a name in config/corpora, such as 'wmt16'")
    train_pairs: int = Field(60_000, ge=1_000, le=5_000_000, description="built-in: training pairs to make")
    dev_pairs: int = Field(500, ge=10, le=100_000, description="built-in: pairs to evaluate on while training")
    test_pairs: int = Field(500, ge=10, le=100_000, description="built-in: pairs to score at the end")
    dirt: float = Field(0.0, ge=0, le=0.5, description="built-in: share of training pairs spoilt on purpose")
    train: ParallelFiles | None = Field(None, description="files: the training text")
    dev: ParallelFiles | None = Field(None, description="files: the text to evaluate on")
    test: ParallelFiles | None = Field(None, description="files: the text to score")
    mirror: Path | None = speed(None, "a folder that is looked in before the network; also $WMTFLOW_MIRROR")
    at_once: int = speed(4, "files fetched at the same time", ge=1, le=16)

    @field_validator("mirror")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()

    @model_validator(mode="after")
    def _corpus_is_complete(self) -> DownloadSettings:
        known = {"builtin", "files", *(path.stem for path in (CONFIGS / "corpora").glob("*.yaml"))}
        if self.corpus not in known:
            raise ValueError(f"corpus: no corpus '{self.corpus}'; {choices(self.corpus, known)}")
        given = [split for split in ("train", "dev", "test") if getattr(self, split) is not None]
        if self.corpus == "files" and len(given) < 3:
            missing = sorted({"train", "dev", "test"} - set(given))
            raise ValueError(
                f"corpus 'files' needs train, dev and test, each with source and target; missing: {missing}"
            )
        if self.corpus != "files" and given:
            raise ValueError(f"{given[0]}: only for corpus 'files', not for '{self.corpus}'")
        return self

    def mirror_folder(self) -> Path | None:
        """The mirror folder to look in; one that is named but not there is an error, lest gigabytes be fetched."""
        named = os.environ.get("WMTFLOW_MIRROR")
        folder = self.mirror or (Path(named).expanduser().absolute() if named else None)
        if folder and not folder.is_dir():
            where = "download.mirror" if self.mirror else "WMTFLOW_MIRROR"
            raise ConfigError(f"{where}: there is no folder {folder}. Correct the path, or leave it out.")
        return folder


class CleanSettings(Settings):
    """Which training pairs are kept: the rule of the reference, `clean-corpus-n 1 80`, then filters that are off."""

    min_words: int = Field(1, ge=1, description="fewest words a side may have")
    max_words: int = Field(80, ge=1, description="most words a side may have")
    max_ratio: float = Field(9.0, ge=1, description="most words of the longer side for each of the shorter")
    drop_identical: bool = Field(False, description="drop a pair whose sides are the same text")
    min_alphabet: float = Field(
        0.0, ge=0, le=1, description="least share of letters of the language's script among non-spaces; 0: off"
    )
    match_numbers: bool = Field(False, description="drop a pair whose sides hold different numbers, in any notation")
    detect_language: bool = Field(False, description="drop a pair with a side that is surely in another language")
    drop_held_out: bool = Field(False, description="drop a pair with a side that also stands in the dev or test set")
    drop_duplicates: bool = Field(False, description="keep only the first of equal pairs")
    workers: int = speed(0, "processes; 0: one per core", ge=0)

    @model_validator(mode="after")
    def _some_length_is_left(self) -> CleanSettings:
        if self.min_words > self.max_words:
            raise ValueError(f"min_words {self.min_words} is over max_words {self.max_words}: nothing would be kept")
        return self


class TokenizeSettings(Settings):
    """How sacremoses splits text into tokens."""

    normalize_punctuation: bool = Field(False, description="unify quotes, dashes and spaces first")
    lowercase: bool = Field(False, description="lower-case the tokens")
    escape: bool = Field(True, description="write & < > ' \" | [ ] as entities, as Moses does")
    aggressive_dash_splits: bool = Field(False, description="split at hyphens, marked @-@")
    workers: int = speed(0, "processes; 0: one per core", ge=0)


class LearnBpeSettings(Settings):
    """The joint subword vocabulary."""

    merges: int = Field(32_000, ge=1, le=200_000, description="merge operations learnt from both sides together")
    min_frequency: int = Field(2, ge=1, description="a pair seen less often is not merged")
    min_count: int = Field(1, ge=1, description="a piece seen less often is left out, and spelt with smaller ones")
    pad_vocabulary_to: int = Field(8, ge=1, le=65_536, description="vocabulary size is a multiple of this")
    workers: int = speed(0, "processes; 0: one per core", ge=0)


class ShuffleSettings(Settings):
    """How the encoded pairs are stored."""

    max_pieces: int = Field(250, ge=2, description="training pairs with more pieces on a side are left out")
    bpe_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the merges left out at random in training text (BPE dropout)"
    )
    copies: int = Field(
        1, ge=1, le=1_000, description="times each training pair is stored, each segmented anew by bpe_dropout"
    )
    write_text: bool = Field(False, description="also write the text of each step under the names of the reference")
    workers: int = speed(0, "processes; 0: one per core", ge=0)

    @model_validator(mode="after")
    def _copies_differ(self) -> ShuffleSettings:
        if self.copies > 1 and not self.bpe_dropout:
            raise ValueError(f"copies {self.copies} without bpe_dropout would store the same pairs again")
        return self


class TrainSettings(Settings):
    """The Transformer and how it is trained. The defaults are the reference's base model."""

    ranks: int = Field(1, ge=1, le=1024, description="Horovod processes: one per GPU, or a few on a CPU")
    threads: int = speed(0, "CPU threads of each rank; 0: share the cores evenly", ge=0)
    layers: int = Field(6, ge=1, le=64, description="layers of the encoder, and of the decoder")
    width: int = Field(512, ge=8, le=8192, description="model width (d_model)")
    heads: int = Field(8, ge=1, le=128, description="attention heads; width must be a multiple of it")
    feed_forward: int = Field(2048, ge=8, le=65536, description="width of the feed-forward layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and residuals")
    inner_dropout: float | None = Field(
        None, ge=0, lt=1, description="on attention weights and ReLU outputs; default: as dropout"
    )
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the pieces read, in both languages, that are left blank"
    )
    r_drop: float = Field(
        0.0, ge=0, description="each pair is read through two dropouts, and how far they differ weighs so much (R-Drop)"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over the whole vocabulary")
    steps: int = Field(50_000, ge=1, description="updates; asking for more later continues")
    batch: int = Field(
        128, ge=1, description="size of a batch, in batch_unit; an update sees ranks x accumulate x batch"
    )
    accumulate: int = Field(
        1, ge=1, le=1024, description="batches a rank adds up for one update: 4 on one GPU train like 1 on four"
    )
    batch_unit: Literal["pairs", "tokens"] = Field("pairs", description="tokens: padded pieces of the longer side")
    max_length: int = Field(56, ge=2, le=1_023, description="training pairs with more pieces on a side are not used")
    learning_rate: float = Field(
        2.0, gt=0, description="factor in rate = f * width^-0.5 * min((s+1) * w^-1.5, (s+1)^-0.5)"
    )
    warmup: int = Field(8_000, ge=1, description="steps w over which the rate rises")
    rate_ends: int = Field(
        0, ge=0, description="the rate falls in a straight line, to nothing after so many steps; 0: by the formula"
    )
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="Adam: decay of the mean")
    adam_beta2: float = Field(0.997, ge=0, lt=1, description="Adam: decay of the variance")
    adam_epsilon: float = Field(1e-9, gt=0, description="Adam: added to the root of the variance")
    precision: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto",
        description="of the arithmetic; weights stay 32-bit. 16 bits are for GPUs, and bfloat16 for some CPUs; auto: "
        "bfloat16 on CPUs that are much faster in it, else, and with products highest, float32",
    )
    products: Literal["high", "highest"] = Field(
        "high",
        description="bits that products of 32-bit numbers keep: high, 10 on GPUs, 16 on CPUs with AMX (with up to 8 "
        "threads a rank and without XLA); highest, 24",
    )
    xla: bool = speed(False, "let XLA compile what it can: once for each shape of batch, so for long trainings on GPUs")
    fp16_compression: bool = Field(False, description="send gradients between ranks as 16-bit floats")
    launcher: Literal["gloo", "mpi"] = speed("gloo", "what starts the ranks: horovodrun, or mpirun (Horovod with MPI)")
    shared_memory: bool = speed(True, "CPU ranks of one machine sum gradients in its memory, not by Horovod; not fp16")
    fusion_mb: int = speed(64, "GPUs: Horovod sends gradients in messages of up to this many MB; CPUs send one", ge=0)
    cycle_ms: float = speed(
        0.0, "milliseconds Horovod waits for gradients to send together; 0: as suits the device", ge=0
    )
    stall_seconds: float = speed(
        600.0, "a training in which nothing moves for so long is ended, its culprit named", gt=0
    )
    eval_every: int = Field(4_001, ge=1, description="steps between evaluations on the dev set")
    checkpoint_every: int = Field(1_000, ge=1, description="steps between checkpoints")
    checkpoint_minutes: float = speed(10.0, "a checkpoint at least this often", gt=0)
    keep: int = Field(5, ge=1, description="newest checkpoints kept, and always two")
    keep_best: int = Field(1, ge=0, description="checkpoints with the best dev BLEU kept beside them")
    average: int = Field(5, ge=1, description="checkpoints whose weights are averaged for the finished model")
    average_of: Literal["last", "best"] = Field("last", description="average the newest, or the best by dev BLEU")
    patience: int = Field(0, ge=0, description="stop after this many evaluations without a better dev BLEU; 0: never")
    log_every: int = speed(100, "steps between lines of progress", ge=1)

    @property
    def pieces_per_update(self) -> int:
        """Target pieces that one rank reads in one update, roughly: a pair is taken for one of 28."""
        return self.batch * self.accumulate * (1 if self.batch_unit == "tokens" else 28) * (2 if self.r_drop else 1)

    @property
    def sums_in_memory(self) -> bool:
        """Whether CPU ranks of one machine sum in its memory; what is compressed is meant for a wire."""
        return self.shared_memory and self.ranks > 1 and not self.fp16_compression

    @model_validator(mode="after")
    def _sizes_agree(self) -> TrainSettings:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads ({self.heads})")
        if self.r_drop and not (self.dropout or self.inner_dropout or self.word_dropout):
            raise ValueError(f"r_drop {self.r_drop} needs dropout: without it nothing differs between two readings")
        if self.rate_ends and not self.warmup < self.rate_ends >= self.steps:
            raise ValueError(
                f"rate_ends {self.rate_ends} must be over warmup ({self.warmup}) and not under steps ({self.steps}): "
                "after it nothing is learnt"
            )
        name, kept = ("keep", self.keep) if self.average_of == "last" else ("keep_best", self.keep_best)
        if self.average > kept:
            raise ValueError(f"average {self.average} is over {name} {kept}: only kept checkpoints can be averaged")
        return self


class ScoreSettings(Settings):
    """How the test set is translated and scored."""

    beam: int = Field(4, ge=1, le=64, description="hypotheses kept while decoding")
    length_penalty: float = Field(0.6, ge=0, description="log-probabilities are divided by length^this")
    min_length: int = Field(1, ge=0, description="fewest pieces in a translation")
    max_length: int = Field(256, ge=1, le=1_000, description="most pieces in a translation")
    batch_tokens: int = speed(0, "source pieces decoded at once; 0: 4,096 on a GPU, 512 on a CPU", ge=0)
    threads: int = speed(0, "CPU threads; 0: all cores", ge=0)


class ReportSettings(Settings):
    """What the report shows."""

    samples: int = Field(12, ge=0, le=1_000, description="sample translations")


class ClusterSettings(Settings):
    """Where the corpus stages do their work by blocks of lines; nowhere in any key, for the bytes are the same."""

    dask: str | None = Field(
        None, description="'local', or a Dask scheduler such as tcp://host:8786, whose machines all see the data folder"
    )
    workers: int = Field(0, ge=0, description="processes of a local Dask cluster; 0: one per core")


class Experiment(Settings):
    """All of an experiment."""

    name: str = Field("experiment", pattern=NAME, max_length=100, description="names data/runs/<name>")
    source: str = Field("en", pattern=r"^[a-z]{2,3}$", description="language translated from")
    target: str = Field("de", pattern=r"^[a-z]{2,3}$", description="language translated into")
    seed: int = Field(1, ge=0, lt=2**31, description="of the built-in corpus, the shuffle, and the training")
    cluster: ClusterSettings = ClusterSettings()
    preflight: PreflightSettings = PreflightSettings()
    download: DownloadSettings = DownloadSettings()
    clean: CleanSettings = CleanSettings()
    tokenize: TokenizeSettings = TokenizeSettings()
    learn_bpe: LearnBpeSettings = LearnBpeSettings()
    shuffle: ShuffleSettings = ShuffleSettings()
    train: TrainSettings = TrainSettings()
    score: ScoreSettings = ScoreSettings()
    report: ReportSettings = ReportSettings()

    @model_validator(mode="after")
    def _languages_differ(self) -> Experiment:
        if self.source == self.target:
            raise ValueError(f"source and target are both '{self.source}'")
        return self
