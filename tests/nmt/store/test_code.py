"""Code digests: what cannot change an output changes no digest, what can changes exactly its own."""

from __future__ import annotations

import ast
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.store import code
from nmt.store.code import digests, source_file
from nmt.store.plan import STAGES

RULE = '''"""The module."""

import math

LIMIT = 9


class Rule:
    """A class."""

    factor = 2

    def apply(self, words: int) -> float:
        """A method."""
        if words > LIMIT:
            return math.inf
        return words * self.factor


def nested(text: str) -> str:
    def inner() -> str:
        return text

    return inner()
'''


def package(root: Path, **modules: str) -> Path:
    """Write modules (`corpus__clean` is nmt/corpus/clean.py) of a fake package `nmt` below `root`."""
    for name, text in modules.items():
        path = root / "nmt" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for folder in [path for path in (root / "nmt").rglob("*") if path.is_dir()] + [root / "nmt"]:
        if not (folder / "__init__.py").exists():
            (folder / "__init__.py").write_text('"""A package."""\n', encoding="utf-8")
    return root


def digest(text: str) -> str:
    """The digest of a module with this text, in a folder of its own so that no cache can help."""
    with tempfile.TemporaryDirectory() as folder:
        return digests("nmt.rule", root=package(Path(folder), rule=text))["nmt.rule"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A method."""', '"""Another text\n\n        on several lines.\n        """'),
        ('        """A method."""\n', ""),
        ('    """A class."""\n', ""),
        ('"""The module."""\n', ""),
        ("LIMIT = 9", "LIMIT = 9  # words"),
        ("LIMIT = 9", "\n\n# words\nLIMIT   =   (\n    9\n)"),
        ("words: int) -> float:", "\n        words: int,\n    ) -> float:"),
        ('"""The module."""', "'''The module.'''"),
        ("\n\n\n", "\n"),
    ],
)
def test_comments_docstrings_and_layout_change_nothing(old: str, new: str):
    assert old in RULE
    assert digest(RULE.replace(old, new)) == digest(RULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 9", "LIMIT = 10"),
        ("words > LIMIT", "words >= LIMIT"),
        ("factor = 2", "factor = 2.0"),
        ("return text", "return text + ''"),
        ("import math", "import cmath as math"),
        ("LIMIT = 9", "LIMIT = 9\nLIMIT = 9"),
    ],
)
def test_an_edited_rule_changes_the_digest(old: str, new: str):
    assert digest(RULE.replace(old, new)) != digest(RULE)


def test_a_docstring_for_an_empty_module_changes_nothing():
    assert digest('"""Now explained."""\n') == digest("")


COMMENT = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20).map(lambda text: f"# {text}")


@given(st.data())
def test_comment_lines_and_docstrings_at_random_places_keep_the_digest(data: st.DataObject):
    lines = RULE.splitlines()
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(lines)))
        lines.insert(at, " " * data.draw(st.integers(0, 12)) + data.draw(COMMENT))
    tree = ast.parse("\n".join(lines))
    starts = [node.body[0].lineno for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    for start in sorted(data.draw(st.sets(st.sampled_from(starts))), reverse=True):
        body = lines[start - 1]
        indent = body[: len(body) - len(body.lstrip())]
        if body.lstrip().startswith('"'):
            lines[start - 1] = indent + '"""Told anew."""'
        else:
            lines.insert(start - 1, indent + '"""Told."""')
    assert digest("\n".join(lines)) == digest(RULE)


def test_an_edit_is_seen_in_the_running_process(tmp_path: Path):
    before = digests("nmt.rule", root=package(tmp_path, rule="x = 1\n"))
    package(tmp_path, rule="x = 1 + 1\n")
    os.utime(tmp_path / "nmt" / "rule.py", ns=(1, 1))  # two writes within a tick of the clock would look the same
    assert digests("nmt.rule", root=tmp_path) != before


MODULES = {
    "stage": "from nmt.direct import f\nimport nmt.plain\nimport numpy as np\n",
    "direct": "def f():\n    from nmt.inside import g\n    return g\n",
    "inside": "g = 1\n",
    "plain": "import nmt.sub.deep as deep\n",
    "sub__deep": "from . import sibling\nfrom .other import name\nfrom .. import above\n",
    "sub__sibling": "s = 1\n",
    "sub__other": "name = 1\n",
    "above": "a = 1\n",
    "unrelated": "u = 1\n",
}
REACHED = {
    "nmt.stage",
    "nmt.direct",
    "nmt.inside",
    "nmt.plain",
    "nmt.sub.deep",
    "nmt.sub.sibling",
    "nmt.sub.other",
    "nmt.above",
}


def test_imports_are_followed_wherever_they_stand_and_however_they_are_written(tmp_path: Path):
    found = digests("nmt.stage", root=package(tmp_path, **MODULES)).keys()
    assert found >= REACHED
    assert found - REACHED <= {"nmt", "nmt.sub"}  # packages named by a relative import


@pytest.mark.parametrize("edited", sorted(REACHED))
def test_an_edit_changes_the_digest_of_its_module_alone(edited: str, tmp_path: Path):
    before = digests("nmt.stage", root=package(tmp_path / "before", **MODULES))
    name = edited.removeprefix("nmt.").replace(".", "__")
    changed = MODULES | {name: MODULES[name] + "edited = True\n"}
    after = digests("nmt.stage", root=package(tmp_path / "after", **changed))
    assert {module for module in before.keys() | after.keys() if before.get(module) != after.get(module)} == {edited}


def test_modules_that_import_each_other_are_each_read_once(tmp_path: Path):
    package(tmp_path, a="from nmt import b\n", b="from nmt import a\n")
    assert {"nmt.a", "nmt.b"} <= digests("nmt.a", root=tmp_path).keys()


def test_data_files_beside_a_module_are_covered_by_content(tmp_path: Path):
    package(tmp_path, words__read="x = 1\n", other="y = 1\n")
    table = tmp_path / "nmt" / "words" / "table.tsv"
    table.write_text("a\tb\n", encoding="utf-8")
    before = digests("nmt.words.read", root=tmp_path)
    table.write_text("a\tc\n", encoding="utf-8")
    after = digests("nmt.words.read", root=tmp_path)
    assert {name for name in after if before[name] != after[name]} == {"nmt/words/table.tsv"}
    assert not any("table" in name for name in digests("nmt.other", root=tmp_path))


def test_the_cpp_of_a_module_is_covered_without_its_comments(tmp_path: Path):
    package(tmp_path, fast__sums="x = 1\n", fast__other="y = 1\n")
    source = tmp_path / "nmt" / "fast" / "sums.cc"
    seen = []
    for text in ("int f() { return 1; }\n", "// why\nint f() {\n  return 1;  // one\n}\n", "int f() { return 2; }\n"):
        source.write_text(text, encoding="utf-8")
        seen.append(digests("nmt.fast.sums", root=tmp_path)["nmt/fast/sums.cc"])
    assert seen[0] == seen[1] != seen[2]
    source.with_name("parts.h").write_text("// why\nint g();\n", encoding="utf-8")
    assert "nmt/fast/parts.h" in digests("nmt.fast.sums", root=tmp_path)
    assert "nmt/fast/parts.h" not in digests("nmt.fast.other", root=tmp_path)
    assert not any("sums" in name for name in digests("nmt.fast.other", root=tmp_path))


def test_exempt_modules_are_left_out_with_what_only_they_import(tmp_path: Path):
    package(
        tmp_path,
        stage="import nmt.errors\nfrom nmt.store.store import Store\nfrom nmt.config import Experiment\n",
        errors="e = 1\n",
        config="c = 1\n",
        store__store="from nmt.hidden import x\n",
        hidden="x = 1\n",
    )
    assert digests("nmt.stage", root=tmp_path).keys() - {"nmt"} == {"nmt.stage"}


def test_a_module_whose_name_only_begins_like_an_exempt_one_is_covered(tmp_path: Path):
    package(
        tmp_path, stage="import nmt.monitoring\nimport nmt.errors_of_grammar\n", monitoring="", errors_of_grammar=""
    )
    assert {"nmt.monitoring", "nmt.errors_of_grammar"} <= digests("nmt.stage", root=tmp_path).keys()


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_real_stage_stands_on_modules_that_exist(stage):
    assert all(source_file(module, code.ROOT) for module in stage.modules)
    found = digests(*stage.modules)
    assert set(stage.modules) <= found.keys()
    assert not [name for name in found if name.startswith(code.EXEMPT)]
    assert "nmt.errors" not in found


def test_the_real_stages_cover_the_code_that_makes_their_output():
    covered = {stage.name: digests(*stage.modules).keys() for stage in STAGES}
    assert {"nmt.model.transformer", "nmt.training.loop", "nmt.training.batches", "nmt.model.loss"} <= covered["train"]
    assert {f"nmt/model/{name}" for name in ("kernels.cc", "numbers.h", "product.h", "softmax.h")} <= covered["train"]
    assert "nmt/model/kernels.cc" not in covered["report"]
    assert {"nmt.corpus.builtin.grammar", "nmt/corpus/builtin/nouns.tsv", "nmt.corpus.fetch"} <= covered["download"]
    assert "nmt.corpus.text" in covered["clean"]
    assert "nmt.corpus.moses" in covered["tokenize"]
    assert "nmt.corpus.bpe" in covered["shuffle"]
    assert {"nmt.scoring.metrics", "nmt.decoding.translate"} <= covered["score"]
    assert {"nmt/report/page.html.j2", "nmt/report/page.css"} <= covered["report"]
    assert "nmt.training.loop" not in covered["clean"] | covered["tokenize"] | covered["learn_bpe"]
