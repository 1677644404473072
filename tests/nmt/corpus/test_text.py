"""Parallel text: only a newline ends a line, so pairs stay pairs whatever stands inside them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpus.text import chunks, count_lines, fold, read_lines, read_pairs
from nmt.errors import CorpusError

ODD = {
    "line separator": "one\u2028still one".encode(),
    "paragraph separator": "one\u2029still one".encode(),
    "next line": "one\u0085still one".encode(),
    "carriage return": b"one\rstill one",
    "carriage return at the end": b"one\r",
    "nul": b"one\x00still one",
    "form feed": b"one\x0cstill one",
    "file separator": b"one\x1cstill one",
    "broken UTF-8": b"one \xff\xc3 still one",
    "half a character at the end": b"one \xe2\x82",
    "empty": b"",
}


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_pairs_stay_pairs_around_odd_lines(odd: bytes, tmp_path: Path):
    source = write(tmp_path, "a.en", b"first\n" + odd + b"\nlast\n")
    target = write(tmp_path, "a.de", b"erste\nmittlere\nletzte\n")
    pairs = list(read_pairs(source, target))
    assert [right for _, right in pairs] == ["erste", "mittlere", "letzte"]
    assert (pairs[0][0], pairs[2][0]) == ("first", "last")
    assert pairs[1][0] == odd.decode("utf-8", errors="replace")


def test_a_missing_last_newline_is_not_a_missing_line(tmp_path: Path):
    source, target = write(tmp_path, "a.en", b"a\nb"), write(tmp_path, "a.de", b"c\nd\n")
    assert list(read_pairs(source, target)) == [("a", "c"), ("b", "d")]


def test_bytes_that_are_not_utf8_become_replacement_characters(tmp_path: Path):
    assert list(read_lines(write(tmp_path, "a", b"a\xffb\n"))) == ["a\ufffdb"]


@pytest.mark.parametrize(("left", "right"), [(3, 2), (2, 3), (0, 1), (1_001, 1_000)])
def test_different_line_counts_are_an_error_that_names_both(left: int, right: int, tmp_path: Path):
    source, target = write(tmp_path, "a.en", b"x\n" * left), write(tmp_path, "a.de", b"y\n" * right)
    with pytest.raises(CorpusError) as caught:
        list(read_pairs(source, target))
    for part in (str(source), str(target), f"a.en {left:,}", f"a.de {right:,}"):
        assert part in str(caught.value)


def test_two_empty_files_are_parallel(tmp_path: Path):
    assert list(read_pairs(write(tmp_path, "a", b""), write(tmp_path, "b", b""))) == []


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=8), st.booleans())
def test_every_byte_but_the_newline_stays_in_its_line(lines: list[bytes], closed: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        path.write_bytes(b"\n".join(lines) + (b"\n" if lines and (closed or not lines[-1]) else b""))
        assert list(read_lines(path)) == [line.decode("utf-8", errors="replace") for line in lines]
        assert count_lines(path) == len(lines)


@pytest.mark.parametrize(
    ("line", "folded"),
    [
        ("  a   b  ", "a b"),
        ("a\tb\u00a0c\u3000d", "a b c d"),
        ("a\u2028b\u0085c\rd", "a b c d"),
        ("a\x00b\x07c\x1b", "abc"),
        ("\ufeffa", "a"),
        (" \x00 ", ""),
        ("a \x00 b", "a b"),
        ("größer – „so“", "größer – „so“"),
        ("", ""),
    ],
)
def test_fold(line: str, folded: str):
    assert fold(line) == folded


@given(st.text())
def test_fold_is_idempotent_and_leaves_single_spaces_only(line: str):
    folded = fold(line)
    assert fold(folded) == folded
    assert folded == " ".join(folded.split())
    assert not any(letter != " " and letter.isspace() for letter in folded)


@given(st.lists(st.integers()), st.integers(1, 7))
def test_chunks_are_the_items_again(items: list[int], size: int):
    found = list(chunks(items, size))
    assert [item for chunk in found for item in chunk] == items
    assert all(len(chunk) == size for chunk in found[:-1])
    assert all(found)
