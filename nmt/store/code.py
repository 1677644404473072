"""The code behind a stage, as digests that ignore comments, docstrings and layout.

A stage's code is its module and every `nmt` module reachable from it by imports, plus the data files that
lie beside those modules, and the C++ beside a module whose name it has. Modules that only move, show or
check things are left out: what they do cannot change a stage's output.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Settings take part in a key by value; the others write no stage's bytes.
EXEMPT = ("nmt.config", "nmt.cores", "nmt.errors", "nmt.progress", "nmt.store", "nmt.cluster", "nmt.monitor")
DATA_SUFFIXES = {".tsv", ".j2", ".css"}
CPP_SUFFIXES = {".cc", ".h"}


def digests(*modules: str, root: Path = ROOT) -> dict[str, str]:
    """The digest of each module (and data file) that `modules` stand on, by name."""
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = source_file(name, root)
        if name in found or path is None or exempt(name):
            continue
        found[name], imports = read_module(name, path, path.stat().st_mtime_ns)
        waiting += imports
        for data in sorted(path.parent.iterdir()):
            compiled = data.suffix in CPP_SUFFIXES and path.with_suffix(".cc").is_file()
            if data.suffix in DATA_SUFFIXES or compiled:
                found[str(data.relative_to(root))] = hashlib.sha256(meant(data)).hexdigest()[:16]
    return found


def meant(data: Path) -> bytes:
    """The bytes of a data file; of C++ without its comments and layout."""
    content = data.read_bytes()
    return b" ".join(re.sub(rb"//.*", b"", content).split()) if data.suffix in CPP_SUFFIXES else content


def exempt(name: str) -> bool:
    """Whether a module is one of those, or inside one, that write no stage's bytes."""
    return any(name == module or name.startswith(f"{module}.") for module in EXEMPT)


@lru_cache(maxsize=512)
def read_module(name: str, path: Path, mtime: int) -> tuple[str, tuple[str, ...]]:
    """A module's digest and the `nmt` modules it imports; `mtime` only makes an edited file a new call."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports = tuple(imported(tree, package))
    return hashlib.sha256(ast.dump(without_docstrings(tree)).encode()).hexdigest()[:16], imports


def source_file(module: str, root: Path) -> Path | None:
    """Where a dotted name's source is, if it is a module of ours at all."""
    base = root.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Every `nmt` name that is imported anywhere in `tree`, modules and members alike."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("nmt."))
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            if base == "nmt" or base.startswith("nmt."):
                # `from package import name`: the name may be a module or something inside one.
                yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def without_docstrings(tree: ast.Module) -> ast.Module:
    """The same tree with every docstring taken out (comments never were in it)."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body[:1] = [] if len(node.body) > 1 or isinstance(node, ast.Module) else [ast.Pass()]
    return tree
