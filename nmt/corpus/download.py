"""download: a corpus by name in → `train`, `dev` and `test` as plain parallel text, counted and checked."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nmt.config import Experiment, ParallelFiles
from nmt.corpus.builtin import generate
from nmt.corpus.fetch import fetch
from nmt.corpus.sources import Part, corpus
from nmt.corpus.text import count_lines, read_pairs
from nmt.errors import CorpusError, DownloadError
from nmt.progress import progress

SPLITS = ("train", "dev", "test")
Say = Callable[[str], None]


def download(experiment: Experiment, archives: Path, out: Path, say: Say) -> dict[str, Any]:
    """Write `<split>.<language>` for all three splits into `out`; fetched files stay in `archives`. Returns counts."""
    settings = experiment.download
    languages = experiment.source, experiment.target
    if settings.corpus == "builtin":
        return make(experiment, out)
    if settings.corpus == "files":
        given = {split: getattr(settings, split) for split in SPLITS}
        return {split: copy(given[split], split, languages, out) for split in SPLITS}
    chosen = corpus(settings.corpus)
    counts: dict[str, Any] = {}
    for split in SPLITS:
        with (
            (out / f"{split}.{languages[0]}").open("wb") as left,
            (out / f"{split}.{languages[1]}").open("wb") as right,
        ):
            for part in getattr(chosen, split):
                say(f"download: {part.name}")
                counts[part.name] = add_part(
                    part, dict(zip(languages, (left, right), strict=True)), archives, settings.mirror, say
                )
    return counts


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


def copy(files: ParallelFiles, split: str, languages: tuple[str, str], out: Path) -> int:
    """A user's own two files, checked to be parallel and not empty; returns the number of pairs."""
    for path in (files.source, files.target):
        if not path.is_file():
            raise CorpusError(f"download.{split}: there is no file {path}")
    pairs = sum(1 for _ in read_pairs(files.source, files.target))
    if not pairs:
        raise CorpusError(f"download.{split}: {files.source} and {files.target} are empty")
    for path, language in zip((files.source, files.target), languages, strict=True):
        shutil.copyfile(path, out / f"{split}.{language}")
    return pairs


def add_part(part: Part, outs: dict[str, IO[bytes]], archives: Path, mirror: Path | None, say: Say) -> int:
    """Append one part to the files of its split, and check that it has the lines it should; returns how many."""
    texts: dict[str, Path] = {}
    for language in outs:
        texts[language] = archives / "text" / f"{part.name}.{language}"
    if not all(path.exists() and count_lines(path) == part.lines for path in texts.values()):
        texts = unpack(part, tuple(outs), archives, mirror, say)
    for language, path in texts.items():
        found = count_lines(path)
        if found != part.lines:
            raise DownloadError(
                f"{part.name}.{language} has {found:,} lines instead of {part.lines:,}. Delete {path} and run again."
            )
        with path.open("rb") as text:
            shutil.copyfileobj(text, outs[language])
    return part.lines


def unpack(part: Part, languages: tuple[str, ...], archives: Path, mirror: Path | None, say: Say) -> dict[str, Path]:
    """The text of a part in each language, as files in `archives/text`."""
    folder = archives / "text"
    folder.mkdir(parents=True, exist_ok=True)
    if part.sacrebleu:
        return sacrebleu_files(part.sacrebleu, languages)
    found: dict[str, Path] = {}
    for alternatives in part.files:
        location, archive = fetch(alternatives, archives, mirror, say)
        for language, member in location.members.items():
            if language not in languages:
                continue
            found[language] = folder / f"{part.name}.{language}"
            temporary = found[language].with_suffix(".partial")
            with opened(archive, member) as text, temporary.open("wb") as file:
                shutil.copyfileobj(text, file)
                ends_in_newline(file, temporary)
            temporary.replace(found[language])
    missing = set(languages) - found.keys()
    if missing:
        raise DownloadError(f"{part.name} has no text in {', '.join(sorted(missing))}")
    return found


@contextmanager
def opened(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """The text inside a tgz, zip, gz or plain file. Only this member is read: no path of an archive is written."""
    try:
        if archive.name.endswith((".tgz", ".tar.gz")):
            with tarfile.open(archive, "r:gz") as tar:
                text = tar.extractfile(member or "")
                if text is None:
                    raise KeyError(member)
                yield text
        elif archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped, zipped.open(member or "") as file:
                yield file
        elif archive.suffix == ".gz":
            with gzip.open(archive) as unzipped:
                yield unzipped  # type: ignore[misc]
        else:
            with archive.open("rb") as plain:
                yield plain
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError) as error:
        raise DownloadError(
            f"{archive}: cannot read {member or 'its content'}: {error}. Delete it and run again."
        ) from None


def ends_in_newline(file: IO[bytes], path: Path) -> None:
    """Close the last line, so that the next part begins on one of its own."""
    file.flush()
    if path.stat().st_size:
        with path.open("rb") as written:
            written.seek(-1, 2)
            if written.read() != b"\n":
                file.write(b"\n")


def sacrebleu_files(name: str, languages: tuple[str, ...]) -> dict[str, Path]:
    """A test set by sacreBLEU's name, fetched and checked by sacreBLEU."""
    from sacrebleu.utils import get_reference_files, get_source_file

    pair = "-".join(languages)
    try:
        return {languages[0]: Path(get_source_file(name, pair)), languages[1]: Path(get_reference_files(name, pair)[0])}
    except Exception as error:  # sacreBLEU lets urllib's, ssl's and its own errors through
        raise DownloadError(
            f"sacreBLEU could not get test set {name}: {error}. Run again when its host answers."
        ) from error
