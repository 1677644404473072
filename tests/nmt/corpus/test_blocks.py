"""Blocks hold whole lines, all of them, in order."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpus import blocks as module
from nmt.corpus.blocks import Workers, blocks, paired
from nmt.corpus.text import read_lines
from nmt.errors import CorpusError


@given(
    st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    st.booleans(),
    st.integers(1, 9),
)
def test_blocks_give_every_line_once(tmp_path_factory, lines, closed, size):
    path = tmp_path_factory.mktemp("blocks") / "text"
    path.write_bytes(b"\n".join(lines) + (b"\n" if closed and lines else b""))
    found = blocks(path, size)
    assert [text for block in found for text in block.text()] == list(read_lines(path))
    assert all(len(block.text()) == block.lines for block in found)
    assert all(block.lines == size for block in found[:-1])


def test_blocks_over_the_edge_of_a_reading(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(1_000)))
    for size in (1, 5, 64, 10_000):
        monkeypatch.setattr(module, "READ", size)
        found = blocks(path, 7)
        assert [int(line) for block in found for line in block.text()] == list(range(1_000))


def test_files_of_different_length_are_refused(tmp_path):
    left, right = tmp_path / "a.en", tmp_path / "a.de"
    left.write_text("x\n" * 20)
    right.write_text("y\n" * 19)
    with pytest.raises(CorpusError, match=r"a.en 20; a.de 19"):
        paired(left, right, 5)
    right.write_text("y\n" * 19 + "y")
    assert [one.lines for one, _ in paired(left, right, 8)] == [8, 8, 4]


def test_workers_keep_the_order_and_pass_errors_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SMALL", -1)
    with Workers(2, []) as workers:
        assert workers.count == 2
        assert list(workers.map(divmod, [(number, 7) for number in range(50)])) == [divmod(n, 7) for n in range(50)]
        with pytest.raises(ZeroDivisionError):
            list(workers.map(divmod, [(1, 1), (1, 0)]))


def test_little_work_is_done_right_here(tmp_path):
    (tmp_path / "small").write_text("x\n")
    with Workers(4, [tmp_path / "small"]) as workers:
        assert workers.count == 1
        assert list(workers.map(os.getpid, [()])) == [os.getpid()]
