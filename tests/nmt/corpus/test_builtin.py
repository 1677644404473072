"""The built-in corpus: its German must be right, follow from the English, and its files be exactly what was asked."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpus.builtin import DIRT, generate, sentence, split_of
from nmt.corpus.builtin import clauses as c
from nmt.corpus.builtin import phrases as p
from nmt.corpus.builtin.clauses import Clause, Time
from nmt.corpus.builtin.dirt import FRENCH
from nmt.corpus.builtin.generate import share
from nmt.corpus.builtin.lexicon import ACC, DAT, NOUNS, VERBS, adjective, genitive, noun, verb

ME, YOU, HE, SHE, WE, THEY = p.PRONOUNS
TODAY, YESTERDAY = Time("today", "heute"), Time("yesterday", "gestern")


def the(word: str, *, plural: bool = False) -> p.NP:
    """The definite phrase of an English noun."""
    return p.noun_phrase(p.THE, noun(word), plural=plural)


DECLENSION = {  # nominative, accusative, dative, genitive
    ("the", "dog"): "der alte Hund, den alten Hund, dem alten Hund, des alten Hundes",
    ("the", "cat"): "die alte Katze, die alte Katze, der alten Katze, der alten Katze",
    ("the", "horse"): "das alte Pferd, das alte Pferd, dem alten Pferd, des alten Pferdes",
    ("the", "dogs"): "die alten Hunde, die alten Hunde, den alten Hunden, der alten Hunde",
    ("a", "dog"): "ein alter Hund, einen alten Hund, einem alten Hund, eines alten Hundes",
    ("a", "cat"): "eine alte Katze, eine alte Katze, einer alten Katze, einer alten Katze",
    ("a", "horse"): "ein altes Pferd, ein altes Pferd, einem alten Pferd, eines alten Pferdes",
    ("", "dogs"): "alte Hunde, alte Hunde, alten Hunden, alter Hunde",
    ("our", "dog"): "unser alter Hund, unseren alten Hund, unserem alten Hund, unseres alten Hundes",
    ("our", "dogs"): "unsere alten Hunde, unsere alten Hunde, unseren alten Hunden, unserer alten Hunde",
    ("this", "horse"): "dieses alte Pferd, dieses alte Pferd, diesem alten Pferd, dieses alten Pferdes",
    ("every", "boy"): "jeder alte Junge, jeden alten Jungen, jedem alten Jungen, jedes alten Jungen",
    ("three", "cats"): "drei alte Katzen, drei alte Katzen, drei alten Katzen, drei alter Katzen",
    ("Anna's", "dog"): "Annas alter Hund, Annas alten Hund, Annas altem Hund, Annas alten Hundes",
    ("no", "cat"): "keine alte Katze, keine alte Katze, keiner alten Katze, keiner alten Katze",
}
DETERMINERS = {
    det.en: det for det in (p.THE, p.A, p.BARE, p.THIS, p.EVERY, p.KEIN, p.owner("Anna"), *p.POSSESSIVES, *p.NUMERALS)
}


@pytest.mark.parametrize(("key", "forms"), DECLENSION.items(), ids=map(" ".join, DECLENSION))
def test_declension(key: tuple[str, str], forms: str) -> None:
    det, word = key
    plural = word.endswith("s")
    phrase = p.noun_phrase(
        DETERMINERS[det], noun(word.rstrip("s") if plural else word), adjective("old"), plural=plural
    )
    assert ", ".join(phrase.de) == forms


def test_strong_singular_and_irregular_stems() -> None:
    cold = [p.noun_phrase(p.BARE, noun(word), adjective("cold")).de[:3] for word in ("tea", "milk", "water")]
    assert cold == [
        ("kalter Tee", "kalten Tee", "kaltem Tee"),
        ("kalte Milch", "kalte Milch", "kalter Milch"),
        ("kaltes Wasser", "kaltes Wasser", "kaltem Wasser"),
    ]
    assert p.noun_phrase(p.A, noun("car"), adjective("expensive")).de[0] == "ein teures Auto"
    best = p.noun_phrase(p.THE, noun("house"), adjective("big"), degree=2)
    assert (best.en, best.de[DAT]) == ("the biggest house", "dem größten Haus")


@pytest.mark.parametrize(
    ("en", "de"),
    [
        ("kitchen table", "Küchentisch"),
        ("garden door", "Gartentür"),
        ("apple juice", "Apfelsaft"),
        ("school book", "Schulbuch"),
    ],
)
def test_compounds_inherit_from_their_head(en: str, de: str) -> None:
    made, head = noun(en), noun(en.split()[-1])
    assert (made.de[0], made.gender, made.place) == (de, head.gender, head.place)


def test_genitives_and_articles() -> None:
    words = ("Mann", "Haus", "Lehrer", "Tisch", "Auto", "Schreibtisch")
    assert list(map(genitive, words)) == ["Mannes", "Hauses", "Lehrers", "Tisches", "Autos", "Schreibtisches"]
    assert p.of(the("mother"), the("boy")).de[DAT] == "der Mutter des Jungen"
    assert [p.article(word) for word in ("apple", "university", "old dog", "dog")] == ["an", "a", "an", "a"]


@pytest.mark.parametrize(
    ("word", "where", "whither"),
    [
        ("garden", "im Garten", "in den Garten"),
        ("museum", "im Museum", "ins Museum"),
        ("school", "in der Schule", "zur Schule"),
        ("station", "am Bahnhof", "zum Bahnhof"),
        ("market", "auf dem Markt", "zum Markt"),
    ],
)
def test_places_contract_with_the_article(word: str, where: str, whither: str) -> None:
    assert (p.location(the(word))[1], p.direction(the(word))[1]) == (where, whither)


def test_two_way_prepositions() -> None:
    on = p.TWO_WAY[0]
    assert p.position(on, the("table"))[1] == "auf dem Tisch"
    assert p.position(on, the("table"), towards=True)[1] == "auf den Tisch"


CALL, READ, GO, HELP, GIVE = verb("call"), verb("read"), verb("go"), verb("help"), verb("give")
A_BOOK, TO_BERLIN = p.noun_phrase(p.A, noun("book")), ("to Berlin", "nach Berlin")
STATEMENTS = [
    (Clause(HE, READ, c.PRESENT, the("book")), "he reads the book", "er liest das Buch"),
    (Clause(YOU, CALL, c.PRESENT, HE), "you call him", "du rufst ihn an"),
    (Clause(ME, CALL, c.PAST, SHE, time=YESTERDAY), "I called her yesterday", "ich rief sie gestern an"),
    (Clause(SHE, CALL, c.PERFECT, the("man")), "she has called the man", "sie hat den Mann angerufen"),
    (Clause(WE, GO, c.PERFECT, after=(TO_BERLIN,)), "we have gone to Berlin", "wir sind nach Berlin gegangen"),
    (Clause(THEY, CALL, c.FUTURE, the("boy")), "they will call the boy", "sie werden den Jungen anrufen"),
    (
        Clause(HE, HELP, c.CAN, dative=the("child"), negated=True),
        "he cannot help the child",
        "er kann dem Kind nicht helfen",
    ),
    (Clause(HE, READ, c.MUST, A_BOOK, negated=True), "he must not read a book", "er darf kein Buch lesen"),
    (
        Clause(HE, READ, c.HAVE_TO, the("book"), negated=True),
        "he does not have to read the book",
        "er muss das Buch nicht lesen",
    ),
    (Clause(HE, READ, c.PRESENT, A_BOOK, negated=True), "he does not read a book", "er liest kein Buch"),
    (
        Clause(HE, READ, c.PRESENT, the("book"), time=TODAY, negated=True),
        "he does not read the book today",
        "er liest das Buch heute nicht",
    ),
    (
        Clause(HE, GO, c.PRESENT, after=(TO_BERLIN,), negated=True),
        "he does not go to Berlin",
        "er geht nicht nach Berlin",
    ),
    (
        Clause(SHE, GIVE, c.PAST, the("key"), the("guest", plural=True)),
        "she gave the guests the key",
        "sie gab den Gästen den Schlüssel",
    ),
    (Clause(SHE, CALL, c.TRY, the("doctor")), "she tries to call the doctor", "sie versucht, den Arzt anzurufen"),
    (
        Clause(the("house"), verb("build"), c.PASSIVE_PAST, time=Time("in 1987", "1987")),
        "the house was built in 1987",
        "das Haus wurde 1987 gebaut",
    ),
    (
        Clause(ME, c.BE, c.PRESENT, after=(("very tired", "sehr müde"),), negated=True),
        "I am not very tired",
        "ich bin nicht sehr müde",
    ),
    (
        Clause(HE, READ, c.PRESENT, the("book"), time=Time("never", "nie", True, True)),
        "he never reads the book",
        "er liest das Buch nie",
    ),
]


@pytest.mark.parametrize(("clause", "en", "de"), STATEMENTS, ids=[row[1] for row in STATEMENTS])
def test_statements(clause: Clause, en: str, de: str) -> None:
    assert (c.english(clause), c.german(clause)) == (en, de)


def test_word_order() -> None:
    clause = Clause(SHE, CALL, c.PAST, the("man"), time=YESTERDAY)
    assert c.english(clause, front=True) == "yesterday she called the man"
    assert c.german(clause, front=True) == "gestern rief sie den Mann an"
    assert c.english_question(clause) == "did she call the man yesterday"
    assert c.german_question(clause) == "rief sie gestern den Mann an"
    assert c.german_last(clause, "weil") == "weil sie gestern den Mann anrief"
    clause.mode, clause.time = c.PERFECT, None
    assert c.german_last(clause, "dass") == "dass sie den Mann angerufen hat"
    clause.accusative = None
    assert c.german_last(clause, "den", subject=True) == "den sie angerufen hat"
    clause.mode = c.WANT
    assert (c.english_question(clause), c.german_question(clause)) == ("does she want to call", "will sie anrufen")


CONJUGATION = {
    "read": ("lese", "liest", "liest", "lesen", "las", "gelesen", "lies"),
    "answer": ("antworte", "antwortest", "antwortet", "antworten", "antwortete", "geantwortet", "antworte"),
    "feed": ("füttere", "fütterst", "füttert", "füttern", "fütterte", "gefüttert", "füttere"),
    "smile": ("lächle", "lächelst", "lächelt", "lächeln", "lächelte", "gelächelt", "lächle"),
    "draw": ("zeichne", "zeichnest", "zeichnet", "zeichnen", "zeichnete", "gezeichnet", "zeichne"),
    "repair": ("repariere", "reparierst", "repariert", "reparieren", "reparierte", "repariert", "repariere"),
    "open": ("mache", "machst", "macht", "machen", "machte", "aufgemacht", "mache"),
    "like": ("mag", "magst", "mag", "mögen", "mochte", "gemocht", ""),
    "call": ("rufe", "rufst", "ruft", "rufen", "rief", "angerufen", "ruf"),
    "trust": ("vertraue", "vertraust", "vertraut", "vertrauen", "vertraute", "vertraut", "vertraue"),
}


@pytest.mark.parametrize(("en", "forms"), CONJUGATION.items())
def test_conjugation(en: str, forms: tuple[str, ...]) -> None:
    made = verb(en)
    assert (*made.present[:4], made.past[0], made.participle, made.imperative) == forms


def test_lexicon_is_unambiguous_and_complete() -> None:
    singulars = [word.en for word in NOUNS]
    assert len(set(singulars)) == len(singulars)
    assert not {word.en for word in NOUNS} & {word.en_plural for word in NOUNS}
    assert all(word.place for word in NOUNS if "L" in word.classes)
    letters = {letter for word in NOUNS for letter in word.classes} | {"y"}
    assert {letter for word in VERBS for letter in word.subject + word.object} <= letters


def test_german_is_a_function_of_english() -> None:
    known: dict[str, str] = {}
    rng, lengths = random.Random("function"), Counter[bool]()
    for _ in range(200_000):
        en, de = sentence(rng)
        if known.setdefault(en, de) != de:
            pytest.fail(f"{en}: {known[en]} or {de}")
        lengths[4 <= len(en.split()) <= 16] += 1
    assert lengths[True] > 0.9 * lengths.total()
    assert len(known) > 180_000


@settings(max_examples=300, deadline=None)
@given(st.integers())
def test_sentences_are_well_formed(seed: int) -> None:
    for text in sentence(random.Random(seed)):
        assert text[0].isupper() or text[0].isdigit()
        assert text[-1] in ".?"
        assert not any(bad in text for bad in ("  ", " ,", " .", ",,", "None", "\n"))
        assert unicodedata.is_normalized("NFC", text)


def lines(path: Path) -> list[bytes]:
    """The lines of a file, which must end in a newline."""
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return data.split(b"\n")[:-1]


def test_splits_share_no_sentence_on_either_side(tmp_path: Path) -> None:
    counts = generate(tmp_path, seed=3, train=15_000, dev=300, test=300, workers=1)
    assert counts == {"train": 15_000, "dev": 300, "test": 300}
    for language in ("en", "de"):
        sides = {split: lines(tmp_path / f"{split}.{language}") for split in ("train", "dev", "test")}
        assert {split: len(side) for split, side in sides.items()} == counts
        held = set(sides["dev"]) | set(sides["test"])
        assert len(held) == 600
        assert not held & set(sides["train"])
    assert {split_of(line.decode()) for line in lines(tmp_path / "dev.de")} == {"dev"}


def test_same_files_whatever_the_workers(tmp_path: Path) -> None:
    seen: list[int] = []
    for workers in (1, 2):
        options = {"seed": 5, "train": 20_001, "dev": 20, "test": 20, "workers": workers, "dirt": 0.01}
        generate(tmp_path / str(workers), **options, progress=seen.append)  # type: ignore[arg-type]
    assert sum(seen) == 2 * 20_041
    for path in sorted((tmp_path / "1").iterdir()):
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()
    generate(tmp_path / "other", seed=6, train=10, dev=1, test=1)
    assert lines(tmp_path / "other/train.en") != lines(tmp_path / "1/train.en")[:10]


def kind_of(en: bytes, de: bytes) -> str:
    """What is wrong with a line, found by looking at it alone."""
    if not en.strip() or not de.strip():
        return "empty"
    try:
        sides = (en.decode(), de.decode())
    except UnicodeDecodeError:
        return "broken_utf8"
    words = sorted(len(side.split()) for side in sides)
    if words[0] > 80:
        return "overlong"
    if words[1] > 9 * words[0]:
        return "ratio" if words[1] <= 80 else "too long for ratio"
    if any(unicodedata.category(char) in ("Cc", "Zl") for side in sides for char in side):
        return "control"
    if en == de or de in FRENCH:
        return "language"
    return "good"


def test_dirt_is_counted_exactly(tmp_path: Path) -> None:
    counts = generate(tmp_path, seed=7, train=6_000, dev=10, test=10, dirt=0.07, workers=1)
    assert sum(counts[f"dirt.{kind}"] for kind in DIRT) == 420
    assert {counts[f"dirt.{kind}"] for kind in DIRT} == {60}
    train = list(zip(lines(tmp_path / "train.en"), lines(tmp_path / "train.de"), strict=True))
    assert len(train) == 6_000
    found = Counter(kind_of(en, de) for en, de in train)
    for kind in ("empty", "overlong", "ratio", "control", "broken_utf8"):
        assert found[kind] == 60, kind
    assert found["language"] == 60
    generate(tmp_path / "clean", seed=7, train=6_000, dev=10, test=10, workers=1)
    assert (tmp_path / "clean/dev.de").read_bytes() == (tmp_path / "dev.de").read_bytes()
    before = list(zip(lines(tmp_path / "clean/train.en"), lines(tmp_path / "clean/train.de"), strict=True))
    assert {kind_of(en, de) for en, de in before} == {"good"}
    changed = [place for place in range(6_000) if train[place] != before[place]]
    copies = [place for place in changed if kind_of(*train[place]) == "good"]
    assert len(changed) == 420
    assert len(copies) == 60
    assert all(train[place] in train[:place] for place in copies)


@settings(max_examples=100)
@given(st.integers(0, 10**7), st.integers(1, 2_000))
def test_shares_sum_to_the_total(total: int, parts: int) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(("train", "dirt"), [(0, 0.0), (1, 0.0), (1_000, 0.02), (5_001, 0.5)])
def test_sizes(tmp_path: Path, train: int, dirt: float) -> None:
    counts = generate(tmp_path, seed=1, train=train, dev=0, test=1, dirt=dirt)
    assert counts["train"] == train == len(lines(tmp_path / "train.en")) == len(lines(tmp_path / "train.de"))
    assert (tmp_path / "dev.en").read_bytes() == b""


@pytest.mark.parametrize("bad", [{"dirt": 0.9}, {"dirt": -0.1}, {"train": -1}])
def test_refuses_what_it_cannot_make(tmp_path: Path, bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        generate(tmp_path, **{"seed": 1, "train": 10, "dev": 1, "test": 1} | bad)  # type: ignore[arg-type]


def test_accusative_is_not_dative() -> None:
    assert [verb(en).case for en in ("help", "call", "dream of", "wait for")] == [DAT, ACC, DAT, ACC]
