"""Random choice of sensible content: noun phrases, times, places and whole clauses that respect the noun classes.

Every function takes `r`, the bound method `random.Random.random`: calling it and indexing is several times faster than
`random.choice`, and the generator's speed is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from nmt.corpus.builtin import clauses as c
from nmt.corpus.builtin import lexicon as lex
from nmt.corpus.builtin import phrases as p
from nmt.corpus.builtin.clauses import Mode, Pair, Time
from nmt.corpus.builtin.lexicon import Adjective, Noun, Verb
from nmt.corpus.builtin.phrases import NP, Determiner

T = TypeVar("T")
Random = Callable[[], float]


def pick(r: Random, items: Sequence[T]) -> T:
    """One of the items, all equally likely."""
    return items[int(r() * len(items))]


@cache
def pool(classes: str) -> tuple[Noun, ...]:
    """The nouns of any of the classes, the simple ones twice: compounds should not crowd them out."""
    found = [noun for noun in lex.NOUNS if any(letter in noun.classes for letter in classes)]
    return tuple(found + [noun for noun in found if " " not in noun.en])


@cache
def fitting(classes: str) -> tuple[Adjective, ...]:
    """The adjectives that go with a noun of these classes."""
    return tuple(adj for adj in lex.ADJECTIVES if any(letter in adj.classes for letter in classes))


NAME_PHRASES = tuple(p.name_phrase(name, gender) for name, gender in lex.NAMES)
OWNERS = tuple(p.owner(name) for name, _ in lex.NAMES)
SINGLE = frozenset(("mother", "father", "boss"))  # one has only one of these
WILD = frozenset("PALt")  # of these only what has a K, d or g can be somebody's
CITY_PLACES: tuple[Pair, ...] = tuple((f"in {en}", f"in {de}") for en, de in lex.CITIES)
CITY_DIRECTIONS: tuple[Pair, ...] = tuple((f"to {en}", f"nach {de}") for en, de in lex.CITIES)
MANNERS: tuple[Pair, ...] = (("loudly", "laut"), ("quietly", "leise"), ("slowly", "langsam"), ("quickly", "schnell"))
MANNER_OF = {"work": MANNERS[1:], "sing": MANNERS[:2], "laugh": MANNERS[:2]}

DAY_NAMES = (
    ("Monday", "Montag"), ("Tuesday", "Dienstag"), ("Wednesday", "Mittwoch"), ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"), ("Saturday", "Samstag"), ("Sunday", "Sonntag"),
)  # fmt: skip
DAYS = tuple(Time(f"on {en}", f"am {de}") for en, de in DAY_NAMES)
EVENING, MORNING = Time("in the evening", "am Abend"), Time("in the morning", "am Morgen")
TODAY, NEVER = Time("today", "heute"), Time("never", "nie", True, True)
CLOCK = tuple(Time(f"at {hour} o'clock", f"um {hour} Uhr") for hour in range(6, 12))
OFTEN = (
    Time("often", "oft", True), Time("always", "immer", True), Time("sometimes", "manchmal", True), NEVER,
    Time("every day", "jeden Tag"),
)  # fmt: skip
TIMES_PRESENT = (*OFTEN, TODAY, EVENING, MORNING, *CLOCK[:2])
TIMES_FUTURE = (
    TODAY, EVENING, Time("tomorrow", "morgen"), Time("soon", "bald"), Time("next week", "nächste Woche"),
    Time("next year", "nächstes Jahr"), *DAYS, *CLOCK,
)  # fmt: skip
TIMES_PERFECT = (TODAY, Time("this week", "diese Woche"), Time("this year", "dieses Jahr"), OFTEN[0], NEVER)
YEARS = tuple(Time(f"in {year}", str(year)) for year in range(1950, 2021))
TIMES_PAST = (
    Time("yesterday", "gestern"), Time("last week", "letzte Woche"), Time("last year", "letztes Jahr"), EVENING,
    *(Time(f"{n.en} days ago", f"vor {n.de[0][0]} Tagen") for n in p.NUMERALS[:6]), OFTEN[0], NEVER, *DAYS, *CLOCK[:3],
)  # fmt: skip

MODES_PRESENT = (c.PRESENT,) * 12 + (c.PERFECT,) * 5 + (c.FUTURE,) * 4 + (
    c.CAN, c.CAN, c.MUST, c.MUST, c.SHOULD, c.SHOULD, c.WANT, c.WANT, c.HAVE_TO, c.TRY, c.HOPE,
)  # fmt: skip
MODES_PAST = (c.PAST,) * 9 + (c.COULD, c.HAD_TO, c.WANTED, c.TRIED, c.HOPED)
VOLUNTARY = frozenset((c.WANT, c.WANTED, c.TRY, c.TRIED, c.HOPE, c.HOPED, c.MUST, c.SHOULD, c.HAVE_TO, c.HAD_TO))


def determiner(r: Random, noun: Noun, *, plural: bool) -> Determiner:
    """A determiner that goes with the noun in this number."""
    x = r()
    if x < 0.4:
        return p.THE
    if x < 0.6:
        return p.BARE if plural or not noun.en_plural else p.A
    if x < 0.78:
        classes = noun.classes
        if classes[0] in WILD and not ("K" in classes or "d" in classes or "g" in classes):
            return p.THE
        if plural and noun.en in SINGLE:
            return p.THE
        return pick(r, p.POSSESSIVES) if x < 0.72 else pick(r, OWNERS)
    if plural:
        return pick(r, p.NUMERALS[:11]) if x < 0.86 else pick(r, (p.MANY, p.SOME, p.THESE, pick(r, p.NUMERALS)))
    return p.THE if x < 0.88 or not noun.en_plural else p.THIS if x < 0.96 else p.EVERY


def described(r: Random, noun: Noun, det: Determiner, *, plural: bool) -> NP:
    """The noun phrase, with a fitting adjective now and then and a superlative where the determiner allows one."""
    if r() < 0.42 and (adjectives := fitting(noun.classes)):
        adjective = pick(r, adjectives)
        degree = 2 if det is p.THE and adjective.superlative and r() < 0.15 else 0
        return p.noun_phrase(det, noun, adjective, plural=plural, degree=degree)
    return p.noun_phrase(det, noun, plural=plural)


def thing(r: Random, classes: str, *, definite: bool = False, plain: bool = False) -> NP:
    """A noun phrase with a noun of one of the classes; `definite` asks for the, this or an owner, `plain` for no
    adjective."""
    noun = pick(r, pool(classes))
    plural = r() < 0.25 and noun.en_plural != ""
    det = determiner(r, noun, plural=plural)
    if definite and not (det.definite and det.negatable):
        det = p.THE
    phrase = p.noun_phrase(det, noun, plural=plural) if plain else described(r, noun, det, plural=plural)
    if "K" in noun.classes and det is p.THE and r() < 0.3 and not (plural and noun.en in SINGLE):
        other = pick(r, pool("P"))
        return p.of(phrase, p.noun_phrase(p.THE, other, plural=r() < 0.2)) if other is not noun else phrase
    return phrase


def actor(r: Random, classes: str, *, past: bool = False, plain: bool = False) -> NP:
    """A subject of one of the classes, mostly definite; you is not used in the past, where German would need an odd
    form. `plain` asks for a definite one without adjective."""
    if classes[0] == "P" and (len(classes) == 1 or r() < 0.7):
        x = r()
        if x < 0.35:
            pronoun = pick(r, p.PRONOUNS)
            return p.PRONOUNS[2] if past and pronoun.person == p.SECOND else pronoun
        if x < 0.5:
            return pick(r, NAME_PHRASES)
        if x < 0.54:
            first, second = pick(r, NAME_PHRASES), pick(r, NAME_PHRASES)
            return p.both(first, second) if first is not second else first
        classes = "P"
    elif classes[0] == "P":
        classes = classes[1:]
    return thing(r, classes, definite=plain or r() < 0.75, plain=plain)


def clash(subject: NP, phrase: NP) -> bool:
    """Whether a clause cannot have this object beside the subject (I see me, the man sees the man)."""
    if subject.pronoun and phrase.pronoun:
        first = (p.FIRST, p.FIRST_PLURAL)
        return subject.person == phrase.person == p.SECOND or (subject.person in first and phrase.person in first)
    if subject.en == phrase.en or phrase.en.startswith(f"{subject.en}'s "):
        return True
    return subject.noun is not None and subject.noun is phrase.noun


def patient(r: Random, classes: str, subject: NP) -> NP:
    """An object of one of the classes that goes with the subject."""
    while True:
        x = r()
        if "P" in classes and x < 0.3:
            phrase = pick(r, p.PRONOUNS) if x < 0.2 else pick(r, NAME_PHRASES)
        else:
            phrase = thing(r, classes)
        if not clash(subject, phrase):
            return phrase


def site(r: Random, classes: str = "L") -> NP:
    """A place as a noun phrase in the singular."""
    noun = pick(r, pool(classes))
    x = r()
    det = (
        p.THE
        if x < 0.75
        else p.A
        if x < 0.85
        else p.THIS
        if x < 0.9 or "g" not in noun.classes
        else pick(r, p.POSSESSIVES)
    )
    return described(r, noun, det, plural=False)


def where(r: Random, classes: str, *, towards: bool = False) -> Pair:
    """A place phrase: a city, a place noun or a position at a thing, by the classes that the verb names."""
    letter = classes[int(r() * len(classes))]
    if letter == "y":
        return pick(r, CITY_PLACES)
    if letter in "Lc":
        return p.location(site(r, letter))
    noun = pick(r, pool(letter))
    first = 2 if noun.classes[0] in "OL" else 1  # nothing is under a door or a house
    index = 0 if letter == "S" else first + int(r() * (5 - first))
    return p.position(p.TWO_WAY[index], described(r, noun, p.THE, plural=False), towards=towards)


def whither(r: Random, classes: str) -> Pair:
    """A direction: to Berlin, to the garden."""
    if "y" in classes and (classes == "y" or r() < 0.5):
        return pick(r, CITY_DIRECTIONS)
    return p.direction(site(r, classes[0]))


def mode_for(r: Random, verb: Verb, *, past: bool, plain: bool) -> Mode:
    """A tense or modal that the verb can have; `plain` leaves out those with a zu-infinitive."""
    if "n" in verb.flags:
        return c.PAST if past and verb.en != verb.en_past else c.PRESENT
    mode = pick(r, MODES_PAST if past else MODES_PRESENT)
    able = "v" in verb.flags or "i" in verb.flags
    if (mode.rest == "zu" and (plain or not able)) or (mode in VOLUNTARY and not able):
        mode = c.PAST if past else c.PRESENT
    if mode is c.PAST and verb.en == verb.en_past:  # English does not tell put from put
        return c.COULD
    return mode


def time_for(r: Random, mode: Mode) -> Time:
    """A time adverbial that goes with the tense."""
    if mode is c.PRESENT:
        return pick(r, TIMES_PRESENT)
    if mode is c.PERFECT:
        return pick(r, TIMES_PERFECT)
    if not mode.past:
        return pick(r, TIMES_FUTURE)
    time = pick(r, YEARS) if r() < 0.15 else pick(r, TIMES_PAST)
    return TIMES_PAST[0] if time.mid and mode.en else time  # could often is a question of scope
