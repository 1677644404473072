"""The definitions in config/corpora: complete, and refused when they make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from mirrors import Mirror

from nmt.corpus import sources
from nmt.errors import ConfigError


@pytest.mark.parametrize("name", ["multi30k", "wmt16"])
def test_the_real_definitions_are_complete(name: str):
    for part in sources.corpus(name).parts:
        assert part.sacrebleu or {side for file in part.files for side in file[0].members} == {"en", "de"}
        for place in (place for file in part.files for place in file):
            assert place.url.startswith(("http://", "https://")) and place.bytes and place.hash[0] != "md5"


def test_the_reference_corpus_has_its_known_size():
    assert sum(part.lines for part in sources.corpus("wmt16").train) == 4_562_102
    assert sources.download_bytes("multi30k") == 568929 + 637044 + 21650 + 24681 + 21077 + 22890


def test_sacrebleu_knows_the_test_sets_by_the_reference_hashes():
    from sacrebleu.dataset import DATASETS

    corpus = sources.corpus("wmt16")
    known = {part.sacrebleu: (part.lines, DATASETS[part.sacrebleu].md5) for part in (*corpus.dev, *corpus.test)}
    assert known == {
        "wmt13": (3_000, ["48eca5d02f637af44e85186847141f67"]),
        "wmt14/full": (3_003, ["a8cd784e006feb32ac6f3d9ec7eb389a"]),
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sha256": None}, "a sha256, sha1 or md5 is needed"),
        ({"sha256": "0123"}, "sha256"),
        ({"bytes": 0}, "greater than 0"),
        ({"members": {"en": None, "de": "b"}}, "the text is a member"),
        ({"url": "http://x/y.txt"}, "null of any other file"),
        ({"members": {"en": "a", "de": "a"}}, "a member of its own"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_definition_that_cannot_be_checked_is_refused(mirror: Mirror, change: dict[str, Any], told: str):
    mirror.content["train"][0]["files"][0][0].update(change)
    mirror.experiment()
    with pytest.raises(ConfigError, match=r"tiny\.yaml") as caught:
        sources.corpus("tiny")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sacrebleu": "wmt13"}, "either files or sacrebleu"),
        ({"files": []}, "either files or sacrebleu"),
        ({"name": "../up"}, "pattern"),
        ({"name": "second"}, "two parts have the same name"),
        ({"lines": 0}, "greater than 0"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(mirror: Mirror, change: dict[str, Any], told: str):
    mirror.content["train"][0].update(change)
    mirror.experiment()
    with pytest.raises(ConfigError) as caught:
        sources.corpus("tiny")
    assert told in str(caught.value)
