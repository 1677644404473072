"""Lines of text in → their translations, in order, by a model folder that `export` wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ctranslate2

from nmt import cores
from nmt.config import ScoreSettings
from nmt.corpus.bpe import Segmenter, join, read_vocabulary
from nmt.corpus.moses import Detokenizer, Tokenizer
from nmt.decoding.export import TextSettings
from nmt.errors import RunError

LONGEST = 1_000  # pieces on either side; the model's position table ends at 1,024


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
        workers = 1 if gpus else settings.threads or cores.available()
        self.model = ctranslate2.Translator(
            str(model),
            device="cuda" if gpus else "cpu",
            device_index=device % gpus if gpus else 0,
            inter_threads=workers,
            intra_threads=1,
        )

    def __call__(self, lines: list[str], advance: Callable[[int], None] = lambda _: None) -> list[Translation]:
        """Translate lines; an empty line stays empty."""
        sources = [self.segmenter.line(self.tokenizer(line)) for line in lines]
        done = self.decode([pieces for pieces in sources if pieces], advance)
        results = iter(done)
        return [next(results) if pieces else Translation("", []) for pieces in sources]

    def decode(self, sources: list[list[str]], advance: Callable[[int], None] = lambda _: None) -> list[Translation]:
        """Translate segmented sentences."""
        found = []
        outputs = self.model.translate_iterable(
            iter(sources),
            max_batch_size=self.settings.batch_tokens,
            batch_type="tokens",
            beam_size=self.settings.beam,
            length_penalty=self.settings.length_penalty,
            min_decoding_length=self.settings.min_length,
            max_decoding_length=self.settings.max_length,
            max_input_length=LONGEST,
        )
        for output in outputs:
            pieces = output.hypotheses[0]
            found.append(Translation(self.detokenizer(join(pieces)), pieces))
            advance(1)
        return found
