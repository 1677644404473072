"""The words of the built-in corpus: reads the TSV tables and derives every regular form.

Nouns carry classes, one letter each (P person, A animal, L place, F food …); verbs name the classes that they take
as subject and object. The first letter of a noun chooses the adjectives that go with it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

NOM, ACC, DAT, GEN = range(4)
GENDERS = "mfn"  # the column of a declension table; 3 is the plural
PLURAL = 3

# Place nouns: flag -> English preposition, German one (dative), German one of direction and its case.
PLACES = {
    "in": ("in", "in", "in", ACC),
    "in-zu": ("in", "in", "zu", DAT),
    "at-an": ("at", "an", "zu", DAT),
    "on-auf": ("on", "auf", "zu", DAT),
    "at-auf": ("at", "auf", "zu", DAT),
}
INSEPARABLE = ("be", "ge", "er", "ver", "zer", "ent", "emp")


class Noun(NamedTuple):
    """A noun: English singular and plural ("" if it has none), German forms by case, classes, place flag."""

    en: str
    en_plural: str
    gender: int
    de: tuple[str, ...]
    de_plural: tuple[str, ...]
    classes: str
    place: tuple[str, str, str, int] | None


class Adjective(NamedTuple):
    """An adjective: predicative forms and the stems that endings go on; degrees are "" where not compared."""

    en: str
    en_comparative: str
    en_superlative: str
    de: str
    stem: str
    comparative: str
    superlative: str
    classes: str


class Verb(NamedTuple):
    """A verb: English forms; German forms by person (1sg 2sg 3sg 1pl 3pl); what it governs and selects."""

    en: str
    en_third: str
    en_past: str
    en_participle: str
    prefix: str
    infinitive: str
    zu: str
    present: tuple[str, ...]
    past: tuple[str, ...]
    participle: str
    imperative: str
    sein: bool
    frame: str
    subject: str
    object: str
    flags: str
    preposition: str
    case: int


def rows(name: str) -> list[list[str]]:
    """The rows of a TSV file beside this module, without its heading; "-" reads as empty."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()[1:]
    return [["" if cell == "-" else cell for cell in line.split("\t")] for line in lines]


def genitive(word: str) -> str:
    """The regular genitive singular of a masculine or neuter noun: -es after sibilants and on monosyllables."""
    vowels = re.findall(r"[aeiouäöüy]+", word.lower())
    return word + (
        "es" if word.endswith(("s", "ß", "x", "z", "sch")) or (len(vowels) == 1 and word[-1] not in "aeiouäöü") else "s"
    )


def decline(singular: str, gender: str, plural: str, flags: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """German noun forms by case, singular and plural, from the dictionary forms and the flags weak= and gen=."""
    if weak := flags.get("weak"):
        forms: tuple[str, ...] = (singular,) + (singular + weak,) * 3
    else:
        forms = (singular,) * 3 + (singular if gender == "f" else flags.get("gen") or genitive(singular),)
    dative = plural if not plural or plural[-1] in "ns" else plural + "n"
    return forms, (plural, plural, dative, plural)


def nouns() -> list[Noun]:
    """All nouns: those of the table, then the compounds, which take gender, forms and classes from their head."""
    simple = []
    for en, en_plural, singular, gender, plural, classes, marks in rows("nouns.tsv"):
        flags = dict(mark.split("=") for mark in marks.split() if "=" in mark)
        place = next((PLACES[mark] for mark in marks.split() if mark in PLACES), None)
        forms = decline(singular, gender, plural, flags)
        simple.append(Noun(en, en_plural, GENDERS.index(gender), *forms, classes, place))
    heads = {noun.en: noun for noun in simple}
    compounds = []
    for en, link, names in rows("compounds.tsv"):
        for head in map(heads.__getitem__, names.split()):
            de = tuple(link + form.lower() for form in head.de)
            de_plural = tuple(form and link + form.lower() for form in head.de_plural)
            en_forms = (f"{en} {head.en}", head.en_plural and f"{en} {head.en_plural}")
            classes = head.classes.replace("K", "")  # a hotel guest is nobody's
            compounds.append(Noun(*en_forms, head.gender, de, de_plural, classes, head.place))
    return simple + compounds


def adjectives() -> list[Adjective]:
    """All adjectives of the table."""
    made = []
    for en, en_degrees, de, stem, de_degrees, classes in rows("adjectives.tsv"):
        more, most = en_degrees.split(",") if en_degrees else ("", "")
        comparative, superlative = de_degrees.split(",") if de_degrees else ("", "")
        made.append(Adjective(en, more, most, de, stem, comparative, superlative, classes))
    return made


def conjugate(infinitive: str, forms: str) -> tuple[tuple[str, ...], tuple[str, ...], str, str]:
    """Present and past by person, participle and imperative of a verb without its prefix.

    `forms` gives third person, past and participle of a strong verb; a weak one follows from its infinitive.
    """
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    link = "e" if re.search(r"([td]|(ch|[^aeiouäöürlhnm])[nm])$", stem) else ""
    if forms:
        third, past, participle = forms.split(",")
    else:
        third, past = f"{stem}{link}t", f"{stem}{link}te"
        ge = "" if infinitive.startswith(INSEPARABLE) or infinitive.endswith("ieren") else "ge"
        participle = f"{ge}{stem}{link}t"
    if third[-1] != "t":  # a preterite-present such as mögen: no ending in the singular
        first, second = third, third + ("t" if third[-1] in "sßzx" else "st")
    else:
        first = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"
        second = third if stem[-1] in "sßzx" else third[:-1] + "st"
    present = (first, second, third, infinitive, infinitive)
    pasts = past + ("n" if past.endswith("e") else "en")
    if third == first:  # nobody is told to like
        imperative = ""
    elif third[:-1] != stem + link and "i" in third:  # e turns to i in the imperative too: lies, gib, hilf
        imperative = third[:-1]
    else:  # weak verbs keep their -e, strong ones lose it where it can be lost
        imperative = first if link or past.endswith("te") else stem
    return present, (past, "", past, pasts, pasts), participle, imperative


def english_forms(base: str) -> tuple[str, str, str]:
    """Third person, past and participle of a regular English verb."""
    return base + "s", base + "ed", base + "ed"


def make_verb(row: list[str]) -> Verb:
    """A verb from its row of the table."""
    en, en_forms, prefix, infinitive, forms, aux, frame, subject, object_, marks = row
    third, past, participle = en_forms.split(",") if en_forms else english_forms(en)
    present, pasts, de_participle, imperative = conjugate(infinitive, forms)
    flags = "".join(mark for mark in marks.split() if "=" not in mark)
    preposition, _, case = next((mark for mark in marks.split() if "=" in mark), "").partition("=")
    zu = f"{prefix}zu{infinitive}" if prefix else f"zu {infinitive}"
    whole = (prefix + infinitive, zu, present, pasts, prefix + de_participle, imperative)
    government = (preposition, DAT if case == "d" or frame == "d" else ACC)
    return Verb(en, third, past, participle, prefix, *whole, aux == "s", frame, subject, object_, flags, *government)


NOUNS = tuple(nouns())
ADJECTIVES = tuple(adjectives())
VERBS = tuple(make_verb(row) for row in rows("verbs.tsv"))
NAMES = tuple((name, GENDERS.index(gender)) for name, gender in rows("names.tsv"))
CITIES = tuple((en, de) for en, de in rows("cities.tsv"))


def noun(en: str) -> Noun:
    """The noun with this English singular."""
    return next(noun for noun in NOUNS if noun.en == en)


def adjective(en: str) -> Adjective:
    """The adjective with this English positive."""
    return next(adjective for adjective in ADJECTIVES if adjective.en == en)


def verb(en: str, frame: str = "") -> Verb:
    """The verb with this English base form (and, where two share it, this frame)."""
    return next(verb for verb in VERBS if verb.en == en and frame in verb.frame)
