"""Manifests: what is recorded of every file, and which damage is noticed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.store import manifest as manifests
from nmt.store.manifest import NAME, Key, is_text, problem, read, record, short_digest, version, write

KEY = Key(stage="clean", settings={"max_words": 80}, inputs={"download": "ab"}, code={"nmt.x": "1"}, libraries={})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "train.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "sub" / "ids.npy").write_bytes(b"\n\x00\n")
    (tmp_path / "empty").write_bytes(b"")
    return tmp_path


def flip(path: Path, keep_time: bool = False) -> None:
    """Change one byte, nothing else; the time of the change shows unless `keep_time`."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    later = status.st_mtime_ns if keep_time else status.st_mtime_ns + 1_000_000
    os.utime(path, ns=(status.st_atime_ns, later))


def test_a_manifest_is_read_as_it_was_written(folder: Path):
    written = write(folder, KEY, {"kept": 2}, 1.23456)
    assert read(folder) == written
    assert written.key == KEY.digest and written.stage == "clean" and written.counts == {"kept": 2}
    assert written.seconds == 1.235


def test_every_file_is_recorded_with_size_hash_and_lines(folder: Path):
    outputs = write(folder, KEY, {}, 0).outputs
    assert outputs.keys() == {"train.en", "sub/ids.npy", "empty"}
    text = outputs["train.en"]
    assert (text.bytes, text.lines) == (8, 2)
    assert text.sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert outputs["sub/ids.npy"].lines is None
    assert outputs["empty"].bytes == 0


def test_size_is_the_sum_of_all_files(folder: Path):
    assert write(folder, KEY, {}, 0).bytes == 11


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"stage": "clean"}', "\x00"])
def test_no_readable_manifest_is_no_manifest(text: str | None, tmp_path: Path):
    if text is not None:
        (tmp_path / NAME).write_text(text, encoding="utf-8")
    assert read(tmp_path) is None


def test_untouched_files_have_no_problem(folder: Path):
    manifest = write(folder, KEY, {}, 0)
    assert problem(folder, manifest) is None
    assert problem(folder, manifest, thorough=True) is None


def test_a_missing_file_is_named(folder: Path):
    manifest = write(folder, KEY, {}, 0)
    (folder / "sub" / "ids.npy").unlink()
    assert problem(folder, manifest) == "file sub/ids.npy is missing"


def test_a_wrong_size_is_named_with_both_sizes(folder: Path):
    manifest = write(folder, KEY, {}, 0)
    (folder / "train.en").write_text("one\n", encoding="utf-8")
    assert problem(folder, manifest) == "file train.en has 4 bytes instead of 8"


@pytest.mark.parametrize("keep_time", [False, True])
def test_a_flipped_byte_in_a_small_file_is_noticed_whatever_its_time(folder: Path, keep_time: bool):
    manifest = write(folder, KEY, {}, 0)
    flip(folder / "train.en", keep_time)
    assert problem(folder, manifest) == "file train.en was altered"


def test_a_file_that_was_only_touched_is_whole(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifests, "SMALL", -1)
    manifest = write(folder, KEY, {}, 0)
    os.utime(folder / "train.en", ns=(1, 1))
    assert problem(folder, manifest) is None


def test_a_large_file_is_hashed_when_touched_or_when_asked(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifests, "SMALL", -1)
    manifest = write(folder, KEY, {}, 0)
    flip(folder / "train.en", keep_time=True)
    assert problem(folder, manifest) is None  # same size, same time: trusted
    assert problem(folder, manifest, thorough=True) == "file train.en was altered"
    os.utime(folder / "train.en", ns=(1, 1))
    assert problem(folder, manifest) == "file train.en was altered"


def test_an_untouched_large_file_is_not_even_read(folder: Path, monkeypatch: pytest.MonkeyPatch):
    manifest = write(folder, KEY, {}, 0)
    monkeypatch.setattr(manifests, "SMALL", -1)
    read_files: list[Path] = []
    monkeypatch.setattr(manifests, "record", lambda path: read_files.append(path) or record(path))
    assert problem(folder, manifest) is None and read_files == []
    assert problem(folder, manifest, thorough=True) is None and len(read_files) == 3


JSON = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.booleans(), max_size=2)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=5))
def test_a_digest_does_not_depend_on_the_order_of_keys(value: dict[str, object]):
    assert short_digest(value) == short_digest(dict(reversed(value.items())))
    assert len(short_digest(value)) == 16


def test_keys_differ_when_anything_they_cover_differs():
    others = [
        KEY.model_copy(update=change)
        for change in (
            {"stage": "tokenize"},
            {"settings": {"max_words": 60}},
            {"inputs": {"download": "cd"}},
            {"code": {"nmt.x": "2"}},
            {"libraries": {"numpy": "2"}},
        )
    ]
    assert len({key.digest for key in (KEY, *others)}) == 6


def test_the_digest_of_a_key_is_what_it_has_always_been():
    assert Key(stage="clean", settings={"a": 1}, inputs={}, code={}, libraries={}).digest == "fef3e73ed3f32e82"


@given(st.binary(max_size=300))
def test_a_record_tells_size_hash_and_newlines_of_any_bytes(content: bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        path.write_bytes(content)
        found = record(path)
    assert (found.bytes, found.lines) == (len(content), content.count(b"\n"))
    assert found.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("name", "text"),
    [("train.en", True), ("codes", True), ("ids.npy", False), ("model.bin", False), ("weights.index", False)],
)
def test_lines_are_counted_where_they_mean_something(name: str, text: bool):
    assert is_text(Path(name)) is text


def test_a_package_that_is_not_installed_has_no_version():
    assert version("no-such-package-at-all") == "none"
    assert version("pytest") == pytest.__version__
