"""Lines of text in → their translations, in order, by a model folder that `export` wrote."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2

from nmt import cores
from nmt.config import ScoreSettings
from nmt.corpus.bpe import Segmenter, join, read_vocabulary
from nmt.corpus.moses import Detokenizer, Tokenizer
from nmt.decoding.export import TextSettings
from nmt.errors import RunError

LONGEST = 1_000  # pieces on either side; the model's position table ends at 1,024
AT_ONCE = {"cuda": 4_096, "cpu": 512}  # source pieces in a batch; 4,096 are no faster on a CPU and take several GB
LOOK = 0.01  # seconds between looks at whether a batch is done


@dataclass(frozen=True)
class Translation:
    """One translated line: as text, and as the pieces it was made of."""

    text: str
    pieces: list[str]


class Translator:
    """A loaded model with its tokenizers; on GPU number `device` where there are GPUs."""

    def __init__(self, model: Path, settings: ScoreSettings, device: int = 0) -> None:
        if not (model / "model.bin").is_file():
            raise RunError(f"{model} holds no model. Finish the run first: wmtflow run CONFIG")
        self.settings = settings
        self.text = TextSettings.model_validate_json((model / "text.json").read_text(encoding="utf-8"))
        self.segmenter = Segmenter(model / "codes", read_vocabulary(model / "vocabulary.tsv"))
        self.tokenizer = Tokenizer(self.text.source, self.text.tokenize)
        self.detokenizer = Detokenizer(self.text.target, self.text.tokenize)
        gpus = ctranslate2.get_cuda_device_count()
        # Each core has batches of its own: cores that share one wait for each other at every product.
        self.workers = 1 if gpus else settings.threads or cores.available()
        where = "cuda" if gpus else "cpu"
        self.batch_tokens = settings.batch_tokens or AT_ONCE[where]
        self.model = ctranslate2.Translator(
            str(model),
            device=where,
            device_index=device % gpus if gpus else 0,
            inter_threads=self.workers,
            intra_threads=1,
        )

    def __call__(self, lines: list[str], advance: Callable[[int], None] = lambda _: None) -> list[Translation]:
        """Translate lines; an empty line stays empty."""
        sources = [self.segmenter.line(self.tokenizer(line)) for line in lines]
        done = self.decode([pieces for pieces in sources if pieces], advance)
        results = iter(done)
        return [next(results) if pieces else Translation("", []) for pieces in sources]

    def decode(self, sources: list[list[str]], advance: Callable[[int], None] = lambda _: None) -> list[Translation]:
        """Translate segmented sentences.

        CTranslate2 gives up no batch that it was given, whatever happens: it has one more than its threads work at,
        and is not waited for but looked at, so that Ctrl-C or a cancel ends this in the time of a batch or two.
        """
        found: dict[int, Translation] = {}
        running: deque[tuple[list[int], list[Any]]] = deque()

        def take() -> None:
            for number, result in zip(*running.popleft(), strict=True):
                while not result.done():
                    time.sleep(LOOK)
                pieces = result.result().hypotheses[0]
                found[number] = Translation(self.detokenizer(join(pieces)), pieces)
                advance(1)

        for batch in batches(sources, self.batch_tokens):
            results = self.model.translate_batch(
                [sources[number] for number in batch],
                asynchronous=True,
                beam_size=self.settings.beam,
                length_penalty=self.settings.length_penalty,
                min_decoding_length=self.settings.min_length,
                max_decoding_length=self.settings.max_length,
                max_input_length=LONGEST,
            )
            running.append((batch, results))
            if len(running) > self.workers:
                take()
        while running:
            take()
        return [found[number] for number in range(len(sources))]


def batches(sources: list[list[str]], tokens: int) -> Iterator[list[int]]:
    """The places of sentences to be decoded together: the longest first, at most `tokens` pieces with their padding."""
    batch: list[int] = []
    for place in sorted(range(len(sources)), key=lambda place: -len(sources[place])):
        if batch and (len(batch) + 1) * len(sources[batch[0]]) > tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
