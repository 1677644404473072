"""download: a corpus by name in → `train`, `dev` and `test` as plain parallel text, counted and checked.

The parts of a corpus are fetched and unpacked several at once. Each part's text stays in `<archives>/text/<corpus>`
beside a record of what it was when it was checked, so that a second run only has to join what the first unpacked.
"""

from __future__ import annotations

import logging
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from copy import copy as shallow_copy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from nmt import atomic
from nmt.config import DownloadSettings, Experiment, ParallelFiles, data_folder
from nmt.corpus.archives import unpack
from nmt.corpus.builtin import generate
from nmt.corpus.fetch import Fetcher, Say, writing, wrong
from nmt.corpus.sources import Location, Part, corpus
from nmt.corpus.text import count_lines, read_pairs
from nmt.errors import CorpusError, DownloadError, RequestError, WmtflowError, choices
from nmt.progress import progress
from nmt.store.manifest import FileRecord, record

LOG = logging.getLogger(__name__)
SPLITS = ("train", "dev", "test")
Languages = tuple[str, str]
Texts = dict[str, Path]  # language → file


def download(experiment: Experiment, archives: Path, out: Path, say: Say) -> dict[str, Any]:
    """Write `<split>.<language>` for all three splits into `out`; fetched files stay in `archives`. Returns counts."""
    settings = experiment.download
    languages = experiment.source, experiment.target
    if settings.corpus == "builtin":
        return make(experiment, out)
    if settings.corpus == "files":
        given = {split: getattr(settings, split) for split in SPLITS}
        return {split: copy(given[split], split, languages, out) for split in SPLITS}
    with writing(out):
        texts = collect(experiment, archives, say)
        chosen = corpus(settings.corpus)
        for split in SPLITS:
            for language in languages:
                with (out / f"{split}.{language}").open("wb") as file:
                    for part in getattr(chosen, split):
                        with texts[part.name][language].open("rb") as text:
                            shutil.copyfileobj(text, file)
    return {part.name: part.lines for part in chosen.parts}


def make(experiment: Experiment, out: Path) -> dict[str, Any]:
    """The built-in corpus."""
    settings = experiment.download
    if (experiment.source, experiment.target) != ("en", "de"):
        raise CorpusError(
            f"the built-in corpus is English-German (en, de), not {experiment.source}, {experiment.target}"
        )
    with progress("built-in corpus", settings.train_pairs + settings.dev_pairs + settings.test_pairs) as advance:
        return dict(
            generate(
                out,
                seed=experiment.seed,
                train=settings.train_pairs,
                dev=settings.dev_pairs,
                test=settings.test_pairs,
                dirt=settings.dirt,
                progress=advance,
            )
        )


def copy(files: ParallelFiles, split: str, languages: Languages, out: Path) -> int:
    """A user's own two files, checked to be parallel and not empty; returns the number of pairs."""
    for path in (files.source, files.target):
        if not path.is_file():
            raise CorpusError(f"download.{split}: there is no file {path}")
    pairs = sum(1 for _ in read_pairs(files.source, files.target))
    if not pairs:
        raise CorpusError(f"download.{split}: {files.source} and {files.target} are empty")
    for path, language in zip((files.source, files.target), languages, strict=True):
        with path.open("rb") as text, (out / f"{split}.{language}").open("wb") as copied:
            if text.read(len(BOM_UTF8)) != BOM_UTF8:  # which some editors put first; it is no part of the text
                text.seek(0)
            shutil.copyfileobj(text, copied)
    return pairs


def collect(experiment: Experiment, archives: Path, say: Say) -> dict[str, Texts]:
    """The text of every part of the chosen corpus, by the part's name."""
    settings, languages = experiment.download, (experiment.source, experiment.target)
    parts, stop = corpus(settings.corpus).parts, Event()
    for part in parts:
        missing = set(languages) - {language for file in part.files for language in file[0].members}
        if part.files and missing:
            raise CorpusError(f"{part.name} has no text in {', '.join(sorted(missing))}")
    total = sum(file[0].bytes or 0 for part in parts for file in part.files)
    with progress("download", total, "bytes") as advance:
        fetcher = Fetcher(archives, settings.mirror_folder(), say, advance, stop)
        folder = archives / "text" / settings.corpus
        jobs: list[tuple[str, Callable[[], Texts]]] = []
        for part in parts:
            if part.sacrebleu:
                jobs.append((part.name, partial(sacrebleu_files, part.sacrebleu, languages, part.lines, fetcher)))
            for file in part.files:
                jobs.append((part.name, partial(part_texts, part, file, languages, folder, fetcher)))
        done = together([job for _, job in jobs], settings.at_once, stop)
    texts: dict[str, Texts] = {}
    for (name, _), found in zip(jobs, done, strict=True):
        texts.setdefault(name, {}).update(found)
    return texts


def together(jobs: Sequence[Callable[[], Texts]], at_once: int, stop: Event) -> list[Texts]:
    """Do all jobs, `at_once` at a time; results in the order of the jobs, or one error that tells all errors."""
    with ThreadPoolExecutor(at_once, thread_name_prefix="download") as pool:
        try:
            # Prefect's logger finds the run it belongs to in the context.
            futures = [pool.submit(copy_context().run, job) for job in jobs]
            wait(futures)
        finally:
            stop.set()  # after Ctrl-C, what still runs ends at its next chunk
    errors = [error for future in futures if (error := future.exception())]
    for error in errors:
        if len(errors) == 1 or not isinstance(error, WmtflowError):
            raise error
    if errors:
        kind = DownloadError if any(isinstance(error, DownloadError) for error in errors) else CorpusError
        raise kind("\n  ".join([f"{len(errors)} of {len(jobs)} files failed:", *map(str, errors)]))
    return [future.result() for future in futures]


class TextRecord(FileRecord):
    """What an unpacked text was when it was checked, and what it was unpacked from."""

    origin: str


def part_texts(part: Part, file: list[Location], languages: Languages, folder: Path, fetcher: Fetcher) -> Texts:
    """One file of a part as text in `folder`: unpacked before and unchanged, or fetched, unpacked and checked."""
    texts = {language: folder / f"{part.name}.{language}" for language in languages if language in file[0].members}
    with writing(folder), fetcher.alone(".".join([part.name, *texts]), folder):
        if all(unchanged(path, part.lines, {origin(each, side) for each in file}) for side, path in texts.items()):
            fetcher.advance(file[0].bytes or 0)
            return texts
        location, archive = fetcher.fetch(file)
        unpack(archive, location.name, {location.members[language]: path for language, path in texts.items()})
        for language, path in texts.items():
            found = record(path)
            if found.lines != part.lines:
                path.unlink()
                raise CorpusError(
                    f"{part.name}.{language} has {found.lines:,} lines instead of {part.lines:,}. "
                    f"It comes from {archive}: look there, and correct the lines or members in config/corpora."
                )
            kept = TextRecord(**found.model_dump(), origin=origin(location, language))
            atomic.write_text(record_path(path), kept.model_dump_json(indent=1) + "\n")
    return texts


def unchanged(path: Path, lines: int, origins: set[str]) -> bool:
    """Whether a text is what it was when it was checked, and still what the corpus says it should be."""
    try:
        kept = TextRecord.model_validate_json(record_path(path).read_bytes())
        return kept.origin in origins and kept.lines == lines and record(path).sha256 == kept.sha256
    except (OSError, ValueError):  # not there, or not one that we wrote
        return False


def record_path(text: Path) -> Path:
    """Where the record of a text is."""
    return text.with_name(text.name + ".json")


def origin(location: Location, language: str) -> str:
    """Names the content of a text: the archive by its hash, and the member."""
    return f"{':'.join(location.hash)}/{location.members[language] or ''}"


def sacrebleu_files(name: str, languages: Languages, lines: int | None = None, fetcher: Fetcher | None = None) -> Texts:
    """A test set by sacreBLEU's name, as sacreBLEU makes and keeps it; only its archives are fetched our way.

    sacreBLEU's own way writes archives and text in place: one kill, and a part of a test set counts as all of it.
    """
    from sacrebleu import utils
    from sacrebleu.dataset import DATASETS
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    pair = "-".join(languages)
    dataset: Any = DATASETS.get(name)  # half of it has no types
    if dataset is None:
        raise RequestError(f"sacreBLEU has no test set '{name}'; {choices(name, DATASETS)}")
    if pair not in dataset.langpairs:
        raise RequestError(f"test set {name} has no {pair}; {choices(pair, dataset.langpairs)}")
    fetcher = fetcher or Fetcher(data_folder() / "downloads", DownloadSettings().mirror_folder(), LOG.info)
    kept, raw = Path(dataset._outdir), Path(dataset._rawdir)
    fields = dataset.fieldnames(pair)
    first = fields.index("src"), next(i for i, field in enumerate(fields) if field.startswith("ref"))
    texts = {
        language: Path(dataset._get_txt_file_path(pair, fields[i]))
        for language, i in zip(languages, first, strict=True)
    }
    places = {
        raw / dataset._get_tarball_filename(url): Location(url=url, md5=md5)
        for url, md5 in zip(dataset.data, dataset.md5, strict=True)
    }
    with writing(kept), fetcher.alone(pair, kept):
        at_hand = all(wrong(place, location) is None or fetcher.find(location) for place, location in places.items())
        if not at_hand and not miscounted(texts, lines):
            return texts  # made by an earlier run of sacreBLEU's, without its archives
        for place, location in places.items():
            if wrong(place, location):
                atomic.copy(fetcher.fetch([location])[1], place)
            if isinstance(dataset, FakeSGMLDataset) and len(places) == 1:
                unpack(place, place.name, {member: raw / member for member in dataset.langpairs[pair]}, text=False)
            else:
                utils.extract_tarball(str(place), str(raw))  # type: ignore[no-untyped-call]
        with TemporaryDirectory(dir=kept) as temporary:
            fresh = shallow_copy(dataset)
            fresh._outdir = temporary
            for made in map(Path, fresh.get_files(pair)):
                made.replace(kept / made.name)
    if problem := miscounted(texts, lines):
        raise CorpusError(f"test set {name}: {problem}, though sacreBLEU's archive has the right md5")
    return texts


def miscounted(texts: Texts, lines: int | None) -> str | None:
    """What is wrong with the line counts of a test set, or None; without `lines` they must agree with each other."""
    try:
        counts = {path.name: count_lines(path) for path in texts.values()}
    except OSError as error:
        return str(error)
    expected = lines or max(counts.values())
    wrong_ones = [f"{name} has {count:,} lines" for name, count in counts.items() if count != expected or not count]
    return f"{' and '.join(wrong_ones)} instead of {expected:,}" if wrong_ones else None
