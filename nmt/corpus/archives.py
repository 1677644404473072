"""Text out of archives: tgz, zip, gz, plain, and WMT's SGM inside any of them.

An archive is read as a stream, once, and only the wanted members are written, to paths of our choosing: nothing in
an archive decides where a file goes. A file gets its name when it is complete.
"""

from __future__ import annotations

import difflib
import gzip
import html
import lzma
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from nmt.errors import CorpusError

CHUNK = 1024 * 1024
# zipfile says RuntimeError for an encrypted member, and NotImplementedError, which is one, for a rare compression.
BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError)
SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.DOTALL | re.IGNORECASE)
OPENED = re.compile(r"<seg\b", re.IGNORECASE)
CLOSED = re.compile(r"</seg\s*>", re.IGNORECASE)


def unpack(archive: Path, name: str, wanted: dict[str | None, Path], text: bool = True) -> None:
    """Write each wanted member of an archive called `name` to its path; None stands for a file that is no archive.

    With `text`, SGM becomes its segments and the last line is closed; otherwise bytes stay as they are.
    """
    try:
        for member, stream in members(archive, name, wanted.keys()):
            path = wanted[member]
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(path.name + ".partial")
            with temporary.open("wb") as file:
                if text and (member or name).removesuffix(".gz").endswith(".sgm"):
                    file.writelines(segments(stream, f"{archive}: {member or name}"))
                elif text:
                    copy_lines(stream, file)
                else:
                    shutil.copyfileobj(stream, file, CHUNK)
            temporary.replace(path)
    except (*BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the machine's own trouble; a damaged archive's has no number
        listed = ", ".join(member for member in wanted if member) or "its content"
        raise CorpusError(f"{archive}: cannot read {listed}: {error}. Is it the {name} it should be?") from None


def members(archive: Path, name: str, wanted: Collection[str | None]) -> Iterator[tuple[str | None, IO[bytes]]]:
    """The wanted members with their content, in the archive's order; an error names all that are missing."""
    for member in wanted:
        refuse_unsafe(archive, member)
    inside = {member for member in wanted if member}
    if name.endswith((".tgz", ".tar.gz")):
        yield from tar_members(archive, inside)
    elif name.endswith(".zip"):
        yield from zip_members(archive, inside)
    elif name.endswith(".gz"):
        with gzip.open(archive) as unzipped:
            yield None, unzipped  # type: ignore[misc]  # it reads as any binary file does
    else:
        with archive.open("rb") as plain:
            yield None, plain


def tar_members(archive: Path, wanted: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Members of a tgz, in one reading that ends at the last wanted one."""
    missing, names = set(wanted), []
    with tarfile.open(archive, "r|gz") as tar:
        for info in tar:
            name = info.name.removeprefix("./")
            names.append(name)
            if name in missing:
                content = tar.extractfile(info) if info.isreg() else None
                if content is None:
                    raise CorpusError(f"{archive}: {name} is a link or a folder, not a file")
                yield name, content
                missing.remove(name)
                if not missing:
                    return
    refuse_missing(archive, missing, names)


def zip_members(archive: Path, wanted: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Members of a zip."""
    with zipfile.ZipFile(archive) as zipped:
        names = {info.filename.removeprefix("./"): info for info in zipped.infolist()}
        refuse_missing(archive, wanted - names.keys(), list(names))
        for name in sorted(wanted):
            if names[name].is_dir() or stat.S_ISLNK(names[name].external_attr >> 16):
                raise CorpusError(f"{archive}: {name} is a link or a folder, not a file")
            with zipped.open(names[name]) as content:
                yield name, content


def refuse_unsafe(archive: Path, member: str | None) -> None:
    """A member's path must stay inside the folder that it would be unpacked to."""
    if member is not None and (PurePosixPath(member).is_absolute() or ".." in PurePosixPath(member).parts):
        raise CorpusError(f"{archive}: {member} leaves the folder it would be unpacked to, and is refused")


def refuse_missing(archive: Path, missing: set[str], names: list[str]) -> None:
    """Name the members that are not there together with the nearest that are."""
    if missing:
        told = []
        for member in sorted(missing):
            near = difflib.get_close_matches(member, names, n=3, cutoff=0.3) or names[:3]
            told.append(f"{member} (nearest: {', '.join(near) or 'it is empty'})")
        raise CorpusError(f"{archive} has no {' and no '.join(told)}. Correct the members in config/corpora.")


def copy_lines(stream: IO[bytes], file: IO[bytes]) -> None:
    """Copy text and close its last line, so that the next part begins on one of its own."""
    last = b"\n"
    while chunk := stream.read(CHUNK):
        file.write(chunk)
        last = chunk[-1:]
    if last != b"\n":
        file.write(b"\n")


def segments(stream: IO[bytes], where: str) -> Iterator[bytes]:
    """The segments of an SGM file, each as one line: entities are characters, white space is one space."""
    waiting, count = "", 0
    lines = list[str]()  # since the last look; most segments are one
    for raw in stream:
        line = raw.decode("utf-8", errors="replace")
        lines.append(line)
        if OPENED.search(line) is None and CLOSED.search(line) is None:
            continue
        waiting += "".join(lines)
        lines.clear()
        if len(OPENED.findall(waiting)) > len(CLOSED.findall(waiting)) + 1:
            raise CorpusError(f"{where}: segment {count + 1:,} is not closed")
        end = 0
        for found in SEGMENT.finditer(waiting):
            count += 1
            end = found.end()
            if OPENED.search(found[1]):
                raise CorpusError(f"{where}: segment {count:,} is not closed")
            yield " ".join(html.unescape(found[1]).split()).encode() + b"\n"
        waiting = waiting[end:]
        if not OPENED.search(waiting):
            waiting = ""
    if OPENED.search(waiting + "".join(lines)):
        raise CorpusError(f"{where}: ends inside segment {count + 1:,}")
