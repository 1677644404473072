"""Noun phrases: determiner, adjective and noun in both languages, pronouns, names and prepositional phrases."""

from __future__ import annotations

from typing import NamedTuple

from nmt.corpus.builtin.lexicon import ACC, DAT, PLURAL, Adjective, Noun

# Agreement of the finite verb: index into a verb's forms by person.
FIRST, SECOND, THIRD, FIRST_PLURAL, THIRD_PLURAL = range(5)


class NP(NamedTuple):
    """A noun phrase: English as subject and object, German by case, its kein forms, agreement and what it is.

    `kein` is empty unless the phrase is indefinite, for only then does negation turn into kein.
    """

    en: str
    en_object: str
    de: tuple[str, ...]
    person: int
    gender: int
    kein: tuple[str, ...] = ()
    pronoun: bool = False
    definite: bool = True
    negatable: bool = True
    noun: Noun | None = None


class Determiner(NamedTuple):
    """A determiner: English, German forms [gender or plural][case], the endings of adjectives after it, traits."""

    en: str
    de: tuple[tuple[str, ...], ...]
    endings: tuple[tuple[str, ...], ...]
    definite: bool
    negatable: bool


def table(text: str) -> tuple[tuple[str, ...], ...]:
    """A declension table from a text of four genders (m f n plural), each of four cases; "-" is the empty form."""
    return tuple(tuple("" if form == "-" else form for form in row.split()) for row in text.split("/"))


STRONG = table("er en em en / e e er er / es es em en / e e en er")
WEAK = table("e en en en / e e en en / e e en en / en en en en")
MIXED = table("er en en en / e e en en / es es en en / en en en en")
DIESER = table("er en em es / e e er er / es es em es / e e en er")
DER = table("der den dem des / die die der der / das das dem des / die die den der")
NONE = table("- - - - / - - - - / - - - - / - - - -")


def inflected(stem: str) -> tuple[tuple[str, ...], ...]:
    """The forms of a determiner that declines like dieser."""
    return tuple(tuple(stem + ending for ending in row) for row in DIESER)


def ein_word(stem: str) -> tuple[tuple[str, ...], ...]:
    """The forms of a determiner that declines like ein: no ending in three places."""
    forms = [list(row) for row in inflected(stem)]
    forms[0][0] = forms[2][0] = forms[2][1] = stem
    return tuple(map(tuple, forms))


KEIN = Determiner("no", ein_word("kein"), MIXED, False, False)
THE = Determiner("the", DER, WEAK, True, True)
A = Determiner("a", ein_word("ein"), MIXED, False, True)
BARE = Determiner("", NONE, STRONG, False, True)
THIS = Determiner("this", inflected("dies"), WEAK, True, True)
THESE = Determiner("these", inflected("dies"), WEAK, True, True)
EVERY = Determiner("every", inflected("jed"), WEAK, True, False)
MANY = Determiner("many", inflected("viel"), STRONG, False, False)
SOME = Determiner("some", inflected("einig"), STRONG, False, False)
POSSESSIVES = tuple(
    Determiner(en, ein_word(de), MIXED, True, True)
    for en, de in (
        ("my", "mein"),
        ("your", "dein"),
        ("his", "sein"),
        ("her", "ihr"),
        ("our", "unser"),
        ("their", "ihr"),
    )
)
NUMBERS = (
    ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("six", "sechs"), ("seven", "sieben"),
    ("eight", "acht"), ("nine", "neun"), ("ten", "zehn"), ("eleven", "elf"), ("twelve", "zwölf"),
)  # fmt: skip
NUMERALS = tuple(
    Determiner(en, ((de,) * 4,) * 4, STRONG, False, False)
    for en, de in (*NUMBERS, *((str(number), str(number)) for number in range(13, 100)))
)


def owner(name: str) -> Determiner:
    """The genitive of a name as a determiner: Anna's, Annas (names that end in a sibilant are not in the lexicon)."""
    return Determiner(f"{name}'s", ((f"{name}s",) * 4,) * 4, STRONG, True, True)


def article(word: str) -> str:
    """a or an before this word."""
    return "an" if word[0] in "aeiou" and not word.startswith(("uni", "use")) else "a"


def forms(determiner: Determiner, stem: str, noun: Noun, column: int) -> tuple[str, ...]:
    """German forms by case of determiner, adjective stem ("" for none) and noun in a gender or the plural."""
    de = determiner.de[column]
    nouns = noun.de_plural if column == PLURAL else noun.de
    if stem:
        ends = determiner.endings[column]
        if de[0]:
            return tuple([f"{de[case]} {stem}{ends[case]} {nouns[case]}" for case in range(4)])
        return tuple([f"{stem}{ends[case]} {nouns[case]}" for case in range(4)])
    if de[0]:
        return tuple([f"{de[case]} {nouns[case]}" for case in range(4)])
    return nouns


def noun_phrase(
    determiner: Determiner, noun: Noun, adjective: Adjective | None = None, *, plural: bool = False, degree: int = 0
) -> NP:
    """The phrase of determiner, optional adjective (degree 0 positive, 1 comparative, 2 superlative) and noun."""
    column = PLURAL if plural else noun.gender
    en = noun.en_plural if plural else noun.en
    stem = ""
    if adjective:
        en = f"{(adjective.en, adjective.en_comparative, adjective.en_superlative)[degree]} {en}"
        stem = (adjective.stem, adjective.comparative, adjective.superlative)[degree]
    if determiner is A:
        en = f"{article(en)} {en}"
    elif determiner.en:
        en = f"{determiner.en} {en}"
    indefinite = determiner is A or determiner is BARE
    return NP(
        en,
        en,
        forms(determiner, stem, noun, column),
        THIRD_PLURAL if plural else THIRD,
        column,
        forms(KEIN, stem, noun, column) if indefinite else (),
        False,
        determiner.definite,
        determiner.negatable,
        noun,
    )


PRONOUNS = tuple(
    NP(en, en_object, tuple(de.split()), person, gender, pronoun=True)
    for en, en_object, de, person, gender in (
        ("I", "me", "ich mich mir meiner", FIRST, 0),
        ("you", "you", "du dich dir deiner", SECOND, 0),
        ("he", "him", "er ihn ihm seiner", THIRD, 0),
        ("she", "her", "sie sie ihr ihrer", THIRD, 1),
        ("we", "us", "wir uns uns unser", FIRST_PLURAL, 3),
        ("they", "them", "sie sie ihnen ihrer", THIRD_PLURAL, 3),
    )
)


def name_phrase(name: str, gender: int) -> NP:
    """A first name as a noun phrase; gender 0 masculine, 1 feminine."""
    return NP(name, name, (name, name, name, f"{name}s"), THIRD, gender)


def both(first: NP, second: NP) -> NP:
    """Two phrases joined by and: a plural."""
    en, de = (
        f"{first.en} and {second.en_object}",
        tuple(f"{a} und {b}" for a, b in zip(first.de, second.de, strict=True)),
    )
    return NP(en, en, de, THIRD_PLURAL, PLURAL)


def of(head: NP, possessor: NP) -> NP:
    """The head with a genitive attribute: the mother of the boy, die Mutter des Jungen."""
    en, attribute = f"{head.en} of {possessor.en}", possessor.de[3]
    return head._replace(en=en, en_object=en, de=tuple([f"{form} {attribute}" for form in head.de]), noun=None)


CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("zu", "dem"): "zum", ("bei", "dem"): "beim", ("von", "dem"): "vom",
    ("in", "das"): "ins", ("an", "das"): "ans", ("zu", "der"): "zur",
}  # fmt: skip


def prepositional(preposition: str, phrase: NP, case: int) -> str:
    """German preposition and phrase in the case, contracted with the definite article: zu + der Schule, zur Schule."""
    de = phrase.de[case]
    head, _, rest = de.partition(" ")
    contracted = CONTRACTIONS.get((preposition, head))
    return f"{contracted} {rest}" if contracted and rest else f"{preposition} {de}"


def location(phrase: NP) -> tuple[str, str]:
    """English and German for being at a place: in the garden, im Garten."""
    assert phrase.noun and phrase.noun.place
    en, de, _, _ = phrase.noun.place
    return f"{en} {phrase.en}", prepositional(de, phrase, DAT)


def direction(phrase: NP) -> tuple[str, str]:
    """English and German for going to a place: to the garden, in den Garten."""
    assert phrase.noun and phrase.noun.place
    _, _, de, case = phrase.noun.place
    return f"to {phrase.en}", prepositional(de, phrase, case)


# Prepositions of place that take the dative for where and the accusative for where to.
TWO_WAY = (("on", "auf"), ("under", "unter"), ("behind", "hinter"), ("next to", "neben"), ("in front of", "vor"))


def position(preposition: tuple[str, str], phrase: NP, *, towards: bool = False) -> tuple[str, str]:
    """English and German for a position relative to a thing: under the table, unter dem (towards: den) Tisch."""
    return f"{preposition[0]} {phrase.en_object}", prepositional(preposition[1], phrase, ACC if towards else DAT)
