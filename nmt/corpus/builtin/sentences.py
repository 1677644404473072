"""Random clauses: a verb with all that it governs, filled by `choose` and checked for what must not go together."""

from __future__ import annotations

from functools import cache

from nmt.corpus.builtin import choose as ch
from nmt.corpus.builtin import clauses as c
from nmt.corpus.builtin import lexicon as lex
from nmt.corpus.builtin import phrases as p
from nmt.corpus.builtin.choose import Random, pick
from nmt.corpus.builtin.clauses import Clause, Pair
from nmt.corpus.builtin.lexicon import Verb
from nmt.corpus.builtin.phrases import NP

WEIGHTS = {"i": 3, "a": 3, "d": 3, "D": 6, "r": 6, "l": 4, "u": 4, "p": 3}
ALL_VERBS = tuple(verb for verb in lex.VERBS for _ in range(WEIGHTS.get(verb.frame, 0)))


@cache
def verbs_for(subject: str, frames: str = "iadDrlup") -> tuple[Verb, ...]:
    """The verbs of these frames that take a subject of the class."""
    return tuple(verb for verb in ALL_VERBS if subject in verb.subject and verb.frame in frames)


PASSIVE_VERBS = tuple(verb for verb in lex.VERBS if "p" in verb.flags)
IMPERATIVE_VERBS = tuple(verb for verb in ALL_VERBS if "i" in verb.flags)
DEGREES: tuple[Pair, ...] = (("", ""), ("", ""), ("very", "sehr"), ("too", "zu"), ("really", "wirklich"))


def negatable(clause: Clause) -> bool:
    """Whether not can be put without a change of scope: no every, many or numerals around it, and no infinitive."""
    phrases = (clause.subject, clause.accusative, clause.dative)
    if any(phrase is not None and not phrase.negatable for phrase in phrases) or clause.mode.rest == "zu":
        return False
    return clause.subject.definite and not (clause.dative and clause.accusative and clause.dative.kein)


def fill(r: Random, clause: Clause, *, place: bool = True) -> None:
    """Give the clause the objects and complements that its verb governs, and perhaps manner or place."""
    verb, subject = clause.verb, clause.subject
    frame, classes = verb.frame, verb.object
    if frame == "a":
        clause.accusative = ch.patient(r, classes, subject)
    elif frame == "d":
        clause.dative = ch.patient(r, classes, subject)
    elif frame == "D":
        clause.dative, clause.accusative = recipient(r, subject), ch.patient(r, classes, subject)
    elif frame == "r":
        clause.after = (ch.whither(r, classes),)
    elif frame == "l":
        clause.after = (ch.where(r, classes),)
    elif frame == "u":
        clause.accusative = ch.thing(r, classes)
        clause.after = (ch.where(r, "SN", towards=True),)
    elif frame == "p":
        while not (phrase := ch.patient(r, classes, subject)).negatable:
            pass
        clause.after = (governed(verb, phrase),)
    if place and "m" in verb.flags and r() < 0.3:
        clause.after = (pick(r, ch.MANNER_OF[verb.en]),)
    elif place and "l" in verb.flags and r() < 0.4:
        clause.after = (ch.where(r, "L"),)


def recipient(r: Random, subject: NP) -> NP:
    """The definite person that something is given to."""
    while not (phrase := ch.patient(r, "P", subject)).definite:
        pass
    return phrase


def governed(verb: Verb, phrase: NP) -> Pair:
    """The prepositional object of a verb; the English preposition is part of the verb."""
    return phrase.en_object, p.prepositional(verb.preposition, phrase, verb.case)


def finish(r: Random, clause: Clause, *, negation: float, time: float) -> None:
    """Perhaps negate the clause and give it a time, as far as they go with the rest."""
    if r() < negation and negatable(clause):
        clause.negated = True
    hoped = clause.mode.rest == "zu" and clause.mode.past  # its time could be that of either verb
    if r() < time and "n" not in clause.verb.flags and not hoped:
        when = ch.time_for(r, clause.mode)
        if clause.negated and when in ch.OFTEN:
            return
        if when.late and not negatable(clause):  # never is a negation too
            return
        if when.de.isdigit() and clause.accusative and not clause.accusative.definite:
            return  # 1987 Bücher would read as a number of books
        clause.time = when


def clause(
    r: Random,
    *,
    past: bool | None = None,
    subject: NP | None = None,
    plain: bool = False,
    negation: float = 0.15,
    time: float = 0.3,
    frames: str = "iadDrlup",
) -> Clause:
    """A random clause with a verb of the frames; `subject` fixes a person as subject, `past` the time it tells of."""
    if past is None:
        past = r() < 0.35
    if subject:
        verb = pick(r, verbs_for("P", frames))
    else:
        verb = pick(r, verbs_for("P", frames) if r() < 0.8 else verbs_all(frames))
        subject = ch.actor(r, verb.subject, past=past)
    made = Clause(subject, verb, ch.mode_for(r, verb, past=past, plain=plain))
    fill(r, made)
    finish(r, made, negation=negation, time=time)
    return made


@cache
def verbs_all(frames: str) -> tuple[Verb, ...]:
    """All verbs of the frames, whatever their subject."""
    return tuple(verb for verb in ALL_VERBS if verb.frame in frames)


def description(r: Random, *, past: bool = False, subject: NP | None = None) -> Clause:
    """A clause with be and an adjective or a place: the house is not very old, the key is in the kitchen."""
    mode = c.PAST if past else c.PRESENT
    if subject is None and r() < 0.15:
        classes, places = pick(r, (("P", "Ly"), ("Z", "LN"), ("d", "L")))
        subject, words = ch.actor(r, classes, past=past, plain=True), ch.where(r, places)
    else:
        if subject is None:
            plain = r() < 0.5
            subject = ch.actor(r, "P" if plain else "ATUVBCFXQO", past=past, plain=True)
        adjective = pick(r, ch.fitting(subject.noun.classes if subject.noun else "P"))
        en, de = pick(r, DEGREES) if adjective.comparative else ("", "")
        words = (f"{en} {adjective.en}".strip(), f"{de} {adjective.de}".strip())
    made = Clause(subject, c.BE, mode, after=(words,))
    finish(r, made, negation=0.15, time=0)
    return made


def comparison(r: Random) -> Clause:
    """A clause that compares two things of one class: the dog is bigger than the cat."""
    classes = pick(r, ("P", "P", "A", "V", "U", "B", "X", "T", "C", "Q"))
    first = ch.actor(r, classes, plain=True)
    while ch.clash(first, second := ch.actor(r, classes, plain=True)):
        pass
    degrees = [adjective for adjective in ch.fitting(classes) if adjective.comparative]
    adjective = pick(r, degrees)
    words = (f"{adjective.en_comparative} than {second.en}", f"{adjective.comparative} als {second.de[0]}")
    if second.pronoun:  # than me, als ich
        words = (f"{adjective.en_comparative} than {second.en_object}", words[1])
    made = Clause(first, c.BE, c.PRESENT, after=(words,))
    finish(r, made, negation=0.1, time=0)
    return made


def passive(r: Random, *, past: bool = True) -> Clause:
    """A passive clause, with its agent now and then: the house was built by the king."""
    verb = pick(r, PASSIVE_VERBS)
    subject = ch.actor(r, verb.object, past=past) if verb.object[0] == "P" else ch.thing(r, verb.object)
    made = Clause(subject, verb, c.PASSIVE_PAST if past else c.PASSIVE)
    if r() < 0.5 or verb.subject == "a":
        agent = ch.patient(r, verb.subject, subject)
        made.after = ((f"by {agent.en_object}", p.prepositional("von", agent, lex.DAT)),)
    finish(r, made, negation=0.12, time=0.4 if past else 0)
    return made
