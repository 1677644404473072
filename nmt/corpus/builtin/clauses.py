"""Clauses: one abstract content (who does what to whom, when, where) and how each language says it.

English puts do-support, auxiliaries and adverbs in place; German builds a verb bracket (finite verb in second, first or
last place, separable prefix or verb cluster at the end) around a middle field of fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nmt.corpus.builtin.lexicon import ACC, DAT, NOM, Verb
from nmt.corpus.builtin.phrases import NP, THIRD

Pair = tuple[str, str]  # English and German
Forms = tuple[str, ...]  # by person: 1sg 2sg 3sg 1pl 3pl


class Mode(NamedTuple):
    """A tense or modal: finite forms of both languages, plain and negated, and the form of the main verb.

    `en` empty means that the main verb itself is finite. `en_do` is set where questions need do-support. `rest` names
    the form of the main verb: "" finite, "infinitive", "participle" or "zu".
    """

    past: bool
    en: Forms = ()
    en_negated: Forms = ()
    en_do: Forms = ()
    en_base: str = ""
    de: Forms = ()
    de_negated: Forms = ()
    rest: str = ""


class Time(NamedTuple):
    """A time adverbial: its words, whether it stands before the verb in English and after objects in German."""

    en: str
    de: str
    mid: bool = False
    late: bool = False


@dataclass(slots=True)
class Clause:
    """The content of a clause; `after` holds what follows nicht (prepositional object, manner, place, predicate)."""

    subject: NP
    verb: Verb
    mode: Mode
    accusative: NP | None = None
    dative: NP | None = None
    after: tuple[Pair, ...] = ()
    time: Time | None = None
    negated: bool = False


def by_person(first: str, second: str, third: str, plural: str) -> Forms:
    """Forms by person from those of the singular and the plural."""
    return (first, second, third, plural, plural)


def same(form: str, third: str = "") -> Forms:
    """English forms by person: one form, and another for the third person singular if given."""
    return (form, form, third or form, form, form)


DO, DID = same("do", "does"), same("did")
BE_PRESENT, BE_PAST = by_person("am", "are", "is", "are"), by_person("was", "were", "was", "were")
HABEN, SEIN = by_person("habe", "hast", "hat", "haben"), by_person("bin", "bist", "ist", "sind")
WERDEN, WURDE = by_person("werde", "wirst", "wird", "werden"), by_person("wurde", "", "wurde", "wurden")


def negate(forms: Forms, base: str = "") -> Forms:
    """English forms with not, and the base form after it where do-support is needed."""
    return tuple(f"{form} not {base}".rstrip() for form in forms)


def auxiliary(en: str, de: Forms, *, negated: str = "", de_negated: Forms = (), past: bool = False) -> Mode:
    """A mode with an English modal that needs no do-support."""
    forms = same(en)
    return Mode(past, forms, same(negated) if negated else negate(forms), (), "", de, de_negated or de, "infinitive")


def catenative(base: str, third: str, past: str, de: Forms, de_past: Forms, rest: str) -> tuple[Mode, Mode]:
    """Present and past of an English verb with to-infinitive (want to) and its German counterpart."""
    return (
        Mode(False, same(base, third), negate(DO, base), DO, base, de, de, rest),
        Mode(True, same(past), negate(DID, base), DID, base, de_past, de_past, rest),
    )


PRESENT, PAST = Mode(False), Mode(True)
PERFECT = Mode(False, same("have", "has"), negate(same("have", "has")), (), "", HABEN, HABEN, "participle")
FUTURE = auxiliary("will", WERDEN)
DARF = by_person("darf", "darfst", "darf", "dürfen")
KONNTE = by_person("konnte", "", "konnte", "konnten")
MUSS, MUSSTE = by_person("muss", "musst", "muss", "müssen"), by_person("musste", "", "musste", "mussten")
CAN = auxiliary("can", by_person("kann", "kannst", "kann", "können"), negated="cannot")
COULD = auxiliary("could", KONNTE, past=True)
MUST = auxiliary("must", MUSS, de_negated=DARF)  # must not forbids: nicht dürfen
SHOULD = auxiliary("should", by_person("sollte", "solltest", "sollte", "sollten"))
HAVE_TO, HAD_TO = catenative("have to", "has to", "had to", MUSS, MUSSTE, "infinitive")
WILL, WOLLTE = by_person("will", "willst", "will", "wollen"), by_person("wollte", "", "wollte", "wollten")
WANT, WANTED = catenative("want to", "wants to", "wanted to", WILL, WOLLTE, "infinitive")
VERSUCHE = by_person("versuche", "versuchst", "versucht", "versuchen")
TRY, TRIED = catenative(
    "try to", "tries to", "tried to", VERSUCHE, by_person("versuchte", "", "versuchte", "versuchten"), "zu"
)
HOFFE = by_person("hoffe", "hoffst", "hofft", "hoffen")
HOPE, HOPED = catenative("hope to", "hopes to", "hoped to", HOFFE, by_person("hoffte", "", "hoffte", "hofften"), "zu")
PASSIVE = Mode(False, BE_PRESENT, negate(BE_PRESENT), (), "", WERDEN, WERDEN, "participle")
PASSIVE_PAST = Mode(True, BE_PAST, negate(BE_PAST), (), "", WURDE, WURDE, "participle")
WAR = by_person("war", "", "war", "waren")
BE = Verb(
    "be", "is", "was", "been", "", "sein", "zu sein", SEIN, WAR, "gewesen", "sei", True, "be", "", "", "", "", ACC
)


def _verb(clause: Clause) -> str:
    """The English main verb after an auxiliary."""
    return clause.verb.en_participle if clause.mode.rest == "participle" else clause.verb.en


def _tail(clause: Clause, *, time: bool) -> str:
    """What follows the English verb: objects, then the rest, then the time if it is not told elsewhere."""
    words = [phrase.en_object for phrase in (clause.dative, clause.accusative) if phrase]
    words += [en for en, _ in clause.after]
    if time and clause.time and not clause.time.mid:
        words.append(clause.time.en)
    return " ".join(words)


def predicate(clause: Clause, *, time: bool = True) -> str:
    """The English predicate: reads the book, does not read the book, has often read the book."""
    verb, mode, person = clause.verb, clause.mode, clause.subject.person
    adverb = clause.time.en if clause.time and clause.time.mid else ""
    if mode.en:
        finite = (mode.en_negated if clause.negated else mode.en)[person]
        words = [finite, adverb, _verb(clause)]
    elif verb is BE:
        finite = (BE_PAST if mode.past else BE_PRESENT)[person]
        words = [finite, "not" if clause.negated else "", adverb]
    elif clause.negated:
        words = [(DID if mode.past else DO)[person], "not", verb.en]
    else:
        words = [adverb, verb.en_past if mode.past else verb.en_third if person == THIRD else verb.en]
    words.append(_tail(clause, time=time))
    return " ".join([word for word in words if word])


def english(clause: Clause, *, front: bool = False, subject: str | None = None) -> str:
    """The English statement; `front` puts the time first, `subject` says another one (a relative pronoun)."""
    said = f"{clause.subject.en if subject is None else subject} {predicate(clause, time=not front)}"
    return f"{clause.time.en} {said}" if front and clause.time else said


def english_question(clause: Clause) -> str:
    """The English yes/no question, which is also what follows a question word."""
    verb, mode, person = clause.verb, clause.mode, clause.subject.person
    adverb = clause.time.en if clause.time and clause.time.mid else ""
    if verb is BE and not mode.en:
        finite, rest = (BE_PAST if mode.past else BE_PRESENT)[person], ""
    elif mode.en and not mode.en_do:
        finite, rest = mode.en[person], _verb(clause)
    elif mode.en:
        finite, rest = mode.en_do[person], f"{mode.en_base} {verb.en}"
    else:
        finite, rest = (DID if mode.past else DO)[person], verb.en
    words = [finite, clause.subject.en, "not" if clause.negated else "", adverb, rest, _tail(clause, time=True)]
    return " ".join([word for word in words if word])


class Bracket(NamedTuple):
    """A German clause in parts: finite verb, middle field, right bracket, the verbs of a verb-final clause, and
    what is moved behind them (a zu-infinitive with its comma)."""

    finite: str
    middle: list[str]
    right: str
    last: str
    behind: str


def middle_field(clause: Clause, *, time: bool) -> list[str]:
    """The German middle field without the subject.

    Pronouns, time, dative, accusative, nicht, rest; definite objects come before the time where nicht or nie follows.
    """
    dative, accusative, negated = clause.dative, clause.accusative, clause.negated
    pronouns, objects, definite = [], [], True
    for phrase, case in ((dative, DAT), (accusative, ACC)):
        if phrase is None:
            continue
        if phrase.pronoun:
            pronouns.append(phrase.de[case])
        elif negated and phrase.kein:
            objects.append(phrase.kein[case])
            negated = definite = False
        else:
            objects.append(phrase.de[case])
            definite = definite and phrase.definite
    when = [clause.time.de] if time and clause.time else []
    late = definite and (negated or (clause.time is not None and clause.time.late))
    words = pronouns + objects + when if late else pronouns + when + objects
    if negated:
        words.append("nicht")
    words += [de for _, de in clause.after]
    return words


def bracket(clause: Clause, *, time: bool = True) -> Bracket:
    """The parts of the German clause."""
    verb, mode, person = clause.verb, clause.mode, clause.subject.person
    middle = middle_field(clause, time=time)
    if not mode.rest:
        finite = (verb.past if mode.past else verb.present)[person]
        return Bracket(finite, middle, verb.prefix, verb.prefix + finite, "")
    forms = mode.de_negated if clause.negated else mode.de
    finite = (SEIN if mode is PERFECT and verb.sein else forms)[person]
    if mode.rest == "zu":
        return Bracket(finite, [], "", finite, ", " + " ".join([*middle, verb.zu]))
    right = verb.participle if mode.rest == "participle" else verb.infinitive
    return Bracket(finite, middle, right, f"{right} {finite}", "")


def german(clause: Clause, *, front: bool = False) -> str:
    """The German statement, verb second; `front` puts the time before the verb and the subject after it."""
    parts = bracket(clause, time=not front)
    subject = clause.subject.de[NOM]
    start = [clause.time.de, parts.finite, subject] if front and clause.time else [subject, parts.finite]
    return " ".join([word for word in (*start, *parts.middle, parts.right) if word]) + parts.behind


def german_question(clause: Clause) -> str:
    """The German clause with the verb first: a yes/no question, or what follows anything in front of the verb."""
    parts = bracket(clause)
    words = (parts.finite, clause.subject.de[NOM], *parts.middle, parts.right)
    return " ".join([word for word in words if word]) + parts.behind


def german_last(clause: Clause, introducer: str, *, subject: bool = True) -> str:
    """The German verb-final clause after a conjunction or relative pronoun; without subject if that is the pronoun."""
    parts = bracket(clause)
    words = [introducer, clause.subject.de[NOM], *parts.middle, parts.last]
    if not subject:
        del words[1]
    return " ".join(words) + parts.behind


def german_predicate(clause: Clause) -> str:
    """The German predicate alone, for a second one with the same subject: und geht in den Garten."""
    parts = bracket(clause)
    return " ".join([word for word in (parts.finite, *parts.middle, parts.right) if word]) + parts.behind
