"""The three files: whole, safe to open, and the same every time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from nmt.config import TokenizeSettings
from nmt.report.answers import QUESTIONS
from nmt.report.facts import Sample
from nmt.report.page import compared, escape_markdown
from nmt.report.report import report

VOID = {"meta", "wbr", "br", "img", "link", "hr", "input"}
HOSTILE = (
    '<script>alert(1)</script> "><img src=x onerror=alert(2)> & {{ 7*7 }} | `code` **bold** [a](http://evil.example)'
)


class Balance(HTMLParser):
    """Checks that tags close in order, and gathers ids, attributes and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Balance:
    """A page that was fed through the check."""
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def written(run: Any, out: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """Run the stage; the page, the Markdown, and the answers."""
    out.mkdir()
    counts = report(run.experiment, run.manifests, run.folders, out)
    assert counts["questions"] == 11
    assert sorted(path.name for path in out.iterdir()) == ["answers.json", "report.html", "report.md"]
    page, text = ((out / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    return page, text, json.loads((out / "answers.json").read_text(encoding="utf-8"))


def test_the_page_is_whole_and_fetches_nothing(make_run: Any, monitored: Any, tmp_path: Path) -> None:
    page, _, _ = written(make_run(monitor=monitored()), tmp_path / "out")
    found = parsed(page)
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for name, value in found.attributes if name in ("src", "href", "xlink:href", "srcset", "data")]
    assert links and all(link.startswith("#") and link[1:] in ids for link in links)
    assert not re.search(r"url\((?!#)|@import|http-equiv", page)
    assert not found.tags & {"script", "link", "iframe", "object", "img"}
    used = set(re.findall(r"url\(#([^)]+)\)", page))
    assert used <= set(ids)


def test_the_page_holds_every_section_and_plot(make_run: Any, monitored: Any, tmp_path: Path) -> None:
    page, _, _ = written(make_run(monitor=monitored()), tmp_path / "out")
    assert page.count("<svg") == 8
    for name in ("answers", "curves", "data", "samples", "checkpoint", "stages", "settings", "versions"):
        assert f'<section id="{name}">' in page
    assert "all ranks, median; in auto" in page  # a made-up run: read from a file, its precision would be settled
    assert "prefers-color-scheme: dark" in page and "@media print" in page
    assert "#0303" not in page and "#0101" not in page and "#0202" not in page  # no placeholder colour is left
    assert "steps: <span>1000</span> <small># default 50000</small>" in page


def test_scores_stand_with_their_signatures_and_sets(make_run: Any, tmp_path: Path) -> None:
    run = make_run()
    page, text, _ = written(run, tmp_path / "out")
    scores = json.loads((run.folders["score"] / "scores.json").read_text())["test"]
    plain = page.replace("<wbr>", "")
    assert "31.25" in plain and scores["signature"] in plain and scores["chrf_signature"] in plain
    assert "built-in test set, 100 sentences" in plain
    assert "not comparable with sacreBLEU" in plain and "not comparable with sacreBLEU" in text
    assert escape_markdown(scores["signature"]) in text


def test_a_model_without_case_is_also_scored_on_tokens(make_run: Any, tmp_path: Path) -> None:
    run = make_run()
    assert "33.50" not in written(run, tmp_path / "cased")[0]
    small = run.experiment.model_copy(update={"tokenize": TokenizeSettings(lowercase=True)})
    page, text, _ = written(replace(run, experiment=small), tmp_path / "lower")
    assert "33.50" in page and "case:lc" in page.replace("<wbr>", "") and "33.50" in text


def test_the_markdown_has_all_eleven(make_run: Any, monitored: Any, tmp_path: Path) -> None:
    page, text, found = written(make_run(monitor=monitored()), tmp_path / "out")
    assert [item["question"] for item in found] == list(QUESTIONS)
    assert {"number", "question", "answer", "figures", "evidence"} <= found[0].keys()
    for item in found:
        assert f"{item['number']}. **{escape_markdown(item['question'])}** {escape_markdown(item['answer'])}" in text
        assert item["question"] in page
    for row in re.findall(r"^\|.*\|$", text, flags=re.MULTILINE):
        assert len(re.findall(r"(?<!\\)\|", row)) in (4, 5, 7)  # a pipe inside a cell would add a column


def test_hostile_text_is_shown_and_not_obeyed(make_run: Any, monitored: Any, tmp_path: Path) -> None:
    run = make_run(
        sentences=[(HOSTILE, HOSTILE, HOSTILE + " </dd>")],
        dropped=[("<b>why</b>", HOSTILE, "\u202etxet")],
        monitor=monitored(hosts=(HOSTILE, "$x^$")),
    )
    page, text, _ = written(run, tmp_path / "out")
    found = parsed(page)
    assert not found.tags & {"script", "img", "b"}
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "{{ 7*7 }}" in page
    assert not re.search(r"(?<!\\)<(script|img|b)\b", text) and "**bold**" not in text
    assert not re.search(r"(?<!\\)\]\(http", text)


def test_the_same_input_gives_the_same_bytes(make_run: Any, monitored: Any, tmp_path: Path) -> None:
    run = make_run(monitor=monitored())
    assert written(run, tmp_path / "one") == written(run, tmp_path / "two")


def test_a_run_of_one_step_is_reported(make_run: Any, monitored: Any, tmp_path: Path) -> None:
    page, text, found = written(make_run(steps=1, samples=0, dropped=[], monitor=monitored()[:1]), tmp_path / "out")
    parsed(page)
    assert len(found) == 11 and "cannot be told" in text
    assert "None asked for" in page and "Dropped pairs" not in page


@pytest.mark.parametrize("overflowed", [1, 5])
def test_stretches_in_which_every_gradient_overflowed_are_left_out(
    make_run: Any, tmp_path: Path, overflowed: int
) -> None:
    run = make_run(steps=5, log_every=1)
    path = run.folders["train"] / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in [row for row in rows if row["kind"] == "train"][:overflowed]:
        row["gradient_norm"] = None
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    page, _, _ = written(run, tmp_path / "out")
    assert ("Gradient norm" in page) == (overflowed < 5) and "nan" not in page.lower()


def test_samples_spread_over_the_test_set(make_run: Any, tmp_path: Path) -> None:
    page, _, _ = written(make_run(samples=4), tmp_path / "out")
    assert re.findall(r'<dd class="line">([\d,]+)</dd>', page) == ["13", "38", "63", "88"]


def test_a_long_monitor_makes_a_small_page(make_run: Any, sample: Any, tmp_path: Path) -> None:
    rows = [sample(second, "alpha", 50 + second % 7, 1_000) for second in range(0, 100_000, 5)]
    page, _, _ = written(make_run(monitor=rows), tmp_path / "out")
    assert len(page) < 300_000 and "hours since monitoring began" in page


@pytest.mark.parametrize(
    ("reference", "output", "missing", "added"),
    [
        ("a b c", "a b c", [], []),
        ("a b c", "a x c", ["b"], ["x"]),
        ("a b", "", ["a", "b"], []),
        ("a", "a a", [], ["a"]),
    ],
)
def test_differing_words_are_marked(reference: str, output: str, missing: list[str], added: list[str]) -> None:
    left, right = compared(Sample(1, "source", reference, output))
    assert [word for word, differs in left if differs] == missing
    assert [word for word, differs in right if differs] == added
