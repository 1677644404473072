"""The sentence patterns of the built-in corpus; `sentence` draws one English-German pair.

German is a function of the English sentence: every choice that shows in German shows in English too.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable
from functools import cache
from itertools import accumulate

from nmt.corpus.builtin import choose as ch
from nmt.corpus.builtin import clauses as c
from nmt.corpus.builtin import lexicon as lex
from nmt.corpus.builtin import phrases as p
from nmt.corpus.builtin import sentences as s
from nmt.corpus.builtin.choose import Random, pick
from nmt.corpus.builtin.clauses import Clause, Pair
from nmt.corpus.builtin.lexicon import ACC, NOM, Verb
from nmt.corpus.builtin.phrases import NP

CONJUNCTIONS = (("because", "weil"), ("because", "weil"), ("although", "obwohl"), ("while", "während"))
WHEN = {False: ("when", "wenn"), True: ("when", "als")}
WEATHER = {
    False: (("it rains", "es regnet"), ("it snows", "es schneit")),
    True: (("it rained", "es regnete"), ("it snowed", "es schneite")),
}
RELATIVE = (*p.DER[:3], ("die", "die", "denen", "deren"))
THAT_VERBS = tuple(verb for verb in lex.VERBS if verb.frame == "t")
KNOW, ASK = lex.verb("know", "t"), lex.verb("ask", "w")
DUTY = frozenset((c.MUST, c.SHOULD, c.HAVE_TO, c.HAD_TO))
WHO = NP("who", "whom", ("wer", "wen", "wem", "wessen"), p.THIRD, 0)
ADVERBIAL_QUESTIONS = (("when", "wann"), ("why", "warum"))


def statement(r: Random) -> Pair:
    """A main clause, its time in front now and then."""
    clause = s.clause(r, time=0.55)
    front = clause.time is not None and not clause.time.mid and clause.mode.rest != "zu" and r() < 0.45
    return c.english(clause, front=front) + ".", c.german(clause, front=front) + "."


def spoken(clause: Clause) -> Pair:
    """The clause as a statement of its own."""
    return c.english(clause) + ".", c.german(clause) + "."


def described(r: Random) -> Pair:
    """A sentence with be and an adjective."""
    return spoken(s.description(r, past=r() < 0.3))


def compared(r: Random) -> Pair:
    """A comparison."""
    return spoken(s.comparison(r))


def passive(r: Random) -> Pair:
    """A passive sentence."""
    return spoken(s.passive(r, past=r() < 0.75))


def question(r: Random) -> Pair:
    """A yes/no question."""
    clause = s.description(r) if r() < 0.2 else s.clause(r, plain=True, negation=0.08)
    return c.english_question(clause) + "?", c.german_question(clause) + "?"


def open_question(r: Random) -> Pair:
    """A question with who, whom, what, where, when or why."""
    x = r()
    if x < 0.25:
        clause = s.clause(r, subject=WHO, plain=True, negation=0.05)
        return c.english(clause) + "?", c.german(clause) + "?"
    if x < 0.5:
        clause = s.clause(r, frames="a", plain=True, negation=0, time=0.2)
        person = clause.verb.object == "P" or (clause.verb.object[0] == "P" and r() < 0.5)
        clause.accusative, clause.time = None, None if " " in clause.verb.en else clause.time  # not: look at at ten
        words = ("whom", "wen") if person else ("what", "was")
    elif x < 0.7:
        clause = s.clause(r, frames="lr", plain=True, negation=0, time=0.2)
        clause.after = ()
        words = ("where", "wohin" if clause.verb.frame == "r" else "wo")
    else:
        clause = s.clause(r, plain=True, negation=0, time=0)
        words = pick(r, ADVERBIAL_QUESTIONS[clause.mode is c.PERFECT :])  # English does not ask when of a perfect
        if words[0] == "why" and r() < 0.25 and s.negatable(clause):
            clause.negated = True
    return f"{words[0]} {c.english_question(clause)}?", f"{words[1]} {c.german_question(clause)}?"


def event(r: Random, *, past: bool, simple: bool, subject: NP | None = None, other: NP | None = None) -> Clause:
    """A clause of something that happens, `other` not being its subject.

    `simple` asks for the plain tense without negation: a modal before and would reach over the second predicate.
    """
    likely = (0, 0) if simple else (0.15, 0.1)
    while True:
        clause = s.clause(r, past=past, subject=subject, plain=True, negation=likely[0], time=likely[1])
        if simple and (clause.mode.rest or "n" in clause.verb.flags):
            continue
        if other is None or other.noun is None or other.noun is not clause.subject.noun:
            return clause


def subordinate(clause: Clause, words: Pair) -> Pair:
    """A subordinate clause with its conjunction in both languages, verb last in German."""
    return f"{words[0]} {c.english(clause)}", c.german_last(clause, words[1])


def complex_sentence(r: Random) -> Pair:
    """A main clause with a subordinate clause of reason, concession or time before or after it."""
    past = r() < 0.45
    words = WHEN[past] if r() < 0.3 else pick(r, CONJUNCTIONS)
    temporal = words[0] in ("when", "while")
    main = event(r, past=past, simple=temporal)
    if r() < 0.1 and words[0] != "while":
        weather = pick(r, WEATHER[past])
        en, de = f"{words[0]} {weather[0]}", f"{words[1]} {weather[1]}"
    else:
        state = r() < 0.25 and words[0] != "while"
        if state:
            inner = s.description(r, past=past, subject=ch.actor(r, "P", past=past, plain=True))
        else:
            inner = event(r, past=past, simple=temporal, other=main.subject)
        en, de = subordinate(inner, words)
    if r() < 0.4:
        return f"{en}, {c.english(main)}.", f"{de}, {c.german_question(main)}."
    return f"{c.english(main)} {en}.", f"{c.german(main)}, {de}."


def reported(r: Random) -> Pair:
    """A main clause with that or whether: he knows that she sleeps."""
    past = r() < 0.4
    mode = c.PAST if past else c.PRESENT
    host = ch.actor(r, "P", past=past)
    inner = s.description(r, past=past) if r() < 0.25 else event(r, past=past, simple=False, other=host)
    x = r()
    if x < 0.7:
        verb = KNOW if inner.mode in DUTY else pick(r, THAT_VERBS)  # nobody hopes that one should
        outer, words = Clause(host, verb, mode), ("that", "dass")
    elif x < 0.85:
        outer, words = Clause(host, ASK, mode), ("whether", "ob")
    else:
        outer, words = Clause(host, KNOW, mode, negated=host.negatable and host.definite), ("whether", "ob")
        if not outer.negated:
            outer.verb = ASK
    inner.negated = inner.negated and words[0] == "that"
    en, de = subordinate(inner, words)
    return f"{c.english(outer)} {en}.", f"{c.german(outer)}, {de}."


def head(r: Random, classes: str, *, plain: bool = False) -> NP:
    """A noun phrase that a relative clause can go with; `plain` asks for no adjective."""
    noun = pick(r, ch.pool(classes))
    plural = r() < 0.25 and noun.en_plural != ""
    det = p.THE if r() < 0.8 or not noun.en_plural else p.BARE if plural else p.A
    return p.noun_phrase(det, noun, plural=plural) if plain else ch.described(r, noun, det, plural=plural)


def relative_clause(r: Random, noun: NP, verb: Verb | None) -> Pair:
    """A relative clause on the phrase: as subject, or as object of the verb if one is given."""
    assert noun.noun
    person = noun.noun.classes[0] == "P"
    past = r() < 0.4
    if verb is None:
        clause = s.clause(r, past=past, subject=noun, plain=True, negation=0.1, time=0.2)
        return c.english(clause, subject="who" if person else "that"), c.german_last(
            clause, RELATIVE[noun.gender][NOM], subject=False
        )
    past = past and verb.en != verb.en_past
    while ch.clash(subject := ch.actor(r, verb.subject, past=past), noun):
        pass
    clause = Clause(subject, verb, ch.mode_for(r, verb, past=past, plain=True))
    s.finish(r, clause, negation=0.05, time=0 if " " in verb.en else 0.2)  # not: look at at ten
    return f"{'whom' if person else 'that'} {c.english(clause)}", c.german_last(
        clause, RELATIVE[noun.gender][verb.case]
    )


@cache
def object_verbs(classes: str) -> tuple[Verb, ...]:
    """The verbs with one object that take a person as subject and a noun of these classes as object."""
    found = (verb for verb in s.verbs_for("P", "ad") if any(letter in verb.object for letter in classes))
    return tuple(found)


def relative(r: Random) -> Pair:
    """A sentence with a relative clause on its subject or, behind the verbs, on its object."""
    if r() < 0.45:
        gap = r() < 0.5
        noun = head(r, "P" if gap else "PATUVCXQ", plain=True)
        assert noun.noun
        en, de = relative_clause(r, noun, None if gap else pick(r, object_verbs(noun.noun.classes)))
        past = r() < 0.3
        plain = noun.noun.classes[0] != "P" or r() < 0.5
        main = (
            s.description(r, past=past, subject=noun)
            if plain
            else s.clause(r, past=past, subject=noun, time=0, plain=True)
        )
        bracket = c.german_predicate(main)
        return f"{noun.en} {en} {c.predicate(main)}.", f"{noun.de[NOM]}, {de}, {bracket}."
    verb = pick(r, s.verbs_for("P", "ad"))
    past = r() < 0.35 and verb.en != verb.en_past
    subject = ch.actor(r, verb.subject, past=past)
    while ch.clash(subject, noun := head(r, verb.object)):
        pass
    assert noun.noun
    main = Clause(subject, verb, ch.mode_for(r, verb, past=past, plain=True))
    main.accusative, main.dative = (noun, None) if verb.case == ACC else (None, noun)
    s.finish(r, main, negation=0.05, time=0)
    gap = noun.noun.classes[0] == "P" and r() < 0.5
    en, de = relative_clause(r, noun, None if gap else pick(r, object_verbs(noun.noun.classes)))
    return f"{c.english(main)} {en}.", f"{c.german(main)}, {de}."


def coordination(r: Random) -> Pair:
    """Two main clauses, or two predicates of one subject, joined by and or but."""
    past = r() < 0.4
    if r() < 0.5:
        first = event(r, past=past, simple=False)
        second = event(r, past=past, simple=False, other=first.subject)
        if r() < 0.5:
            return f"{c.english(first)} and {c.english(second)}.", f"{c.german(first)} und {c.german(second)}."
        return f"{c.english(first)}, but {c.english(second)}.", f"{c.german(first)}, aber {c.german(second)}."
    subject = ch.actor(r, "P", past=past)
    first = event(r, past=past, simple=True, subject=subject)
    while (second := event(r, past=past, simple=True, subject=subject)).verb.infinitive == first.verb.infinitive:
        pass
    return f"{c.english(first)} and {c.predicate(second)}.", f"{c.german(first)} und {c.german_predicate(second)}."


def imperative(r: Random) -> Pair:
    """A request to one person: please call the doctor."""
    you = p.PRONOUNS[1]
    clause = Clause(you, pick(r, s.IMPERATIVE_VERBS), c.PRESENT)
    s.fill(r, clause, place=False)
    s.finish(r, clause, negation=0.1, time=0)
    verb, middle = clause.verb, c.middle_field(clause, time=False)
    en = c.predicate(clause)
    return f"please {en}.", " ".join(word for word in ("bitte", verb.imperative, *middle, verb.prefix) if word) + "."


def measure(r: Random) -> Pair:
    """A fixed pattern with a number: an age, a price, or what there is in a place."""
    x = r()
    if x < 0.35:
        subject = pick(r, ch.NAME_PHRASES) if r() < 0.5 else pick(r, p.PRONOUNS)
        number = 5 + int(r() * 90)
        return spoken(Clause(subject, c.BE, c.PRESENT, after=((f"{number} years old", f"{number} Jahre alt"),)))
    if x < 0.7:
        noun = pick(r, ch.pool("TUCVX"))
        det = pick(r, (p.THE, p.THIS, pick(r, p.POSSESSIVES)))
        phrase = ch.described(r, noun, det, plural=False)
        number = 5 + 5 * int(r() * 40)
        return f"{phrase.en} costs {number} euros.", f"{phrase.de[NOM]} kostet {number} Euro."
    noun, plural = pick(r, ch.pool("B")), r() < 0.6
    det = pick(r, (*p.NUMERALS[:11], p.MANY, p.SOME)) if plural else p.A
    phrase = ch.described(r, noun, det, plural=plural)
    en, de = pick(r, ch.CITY_PLACES) if r() < 0.5 else p.location(ch.site(r, "c"))
    return f"there {'are' if plural else 'is'} {phrase.en} {en}.", f"es gibt {phrase.de[ACC]} {de}."


PATTERNS: tuple[tuple[float, Callable[[Random], Pair]], ...] = (
    (32, statement), (6, described), (3, compared), (5, passive), (7, question), (6, open_question),
    (13, complex_sentence), (10, reported), (8, relative), (8, coordination), (2, imperative), (3, measure),
)  # fmt: skip
BOUNDS = tuple(accumulate(weight for weight, _ in PATTERNS))
MAKERS = tuple(maker for _, maker in PATTERNS)


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]


def sentence(rng: random.Random) -> Pair:
    """One English sentence and its German translation."""
    r = rng.random
    en, de = MAKERS[bisect(BOUNDS, r() * BOUNDS[-1])](r)
    return capital(en), capital(de)
