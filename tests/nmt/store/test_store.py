"""The store: an output is written once, whole or not at all, whatever happens to the process that writes it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nmt.config import ROOT
from nmt.errors import StoreError
from nmt.store.manifest import Key
from nmt.store.store import Store, link_tree, remove, replace

PRELUDE = """
import pathlib, sys, time
from nmt.store.manifest import Key
from nmt.store.store import Store

root, log = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
key = Key(stage="clean", settings={"n": 1}, inputs={}, code={}, libraries={})

def note(text):
    with log.open("a") as file:
        file.write(text + "\\n")
"""
KEY = Key(stage="clean", settings={"n": 1}, inputs={}, code={}, libraries={})
FILES = {"train.en": "one\ntwo\n", "sub/train.de": "eins\nzwei\n"}


def held(store: Store, stage: str, name: str) -> bool:
    """Whether some process holds the lock on an output."""
    descriptor = store.open_lock(f"{stage}-{name}")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def fill(folder: Path) -> dict[str, Any]:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return {"pairs": 2}


class Worker:
    """Work that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> dict[str, Any]:
        self.calls += 1
        return fill(folder)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def said() -> list[str]:
    return []


@contextmanager
def python(code: str, *arguments: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that is gone at the end."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", PRELUDE + code, *map(str, arguments)], env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def noted(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def assert_whole(store: Store, key: Key = KEY) -> None:
    manifest = store.find(key.stage, key.digest)
    assert manifest is not None and store.problem(manifest, thorough=True) is None
    for name, text in FILES.items():
        assert store.file(manifest, name).read_text(encoding="utf-8") == text
    assert [path.name for path in (store.root / key.stage).iterdir()] == [key.digest]


def test_an_output_is_made_once_and_reused(store: Store, said: list[str]):
    work = Worker()
    first, cached_first = store.build(KEY, work, said.append)
    second, cached_second = store.build(KEY, work, said.append)
    assert (cached_first, cached_second, work.calls) == (False, True, 1)
    assert first == second and first.counts == {"pairs": 2}
    assert said == []
    assert_whole(store)


def test_keys_do_not_share_outputs(store: Store, said: list[str]):
    work = Worker()
    other = KEY.model_copy(update={"settings": {"n": 2}})
    store.build(KEY, work, said.append)
    store.build(other, work, said.append)
    assert work.calls == 2
    assert {manifest.key for manifest in store.manifests("clean")} == {KEY.digest, other.digest}


def test_force_makes_it_again(store: Store, said: list[str]):
    work = Worker()
    store.build(KEY, work, said.append)
    _, cached = store.build(KEY, work, said.append, force=True)
    assert not cached and work.calls == 2
    assert_whole(store)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_work_that_raises_leaves_nothing(store: Store, said: list[str], error: type[BaseException]):
    def work(folder: Path) -> dict[str, Any]:
        fill(folder)
        raise error

    with pytest.raises(error):
        store.build(KEY, work, said.append)
    assert store.find("clean", KEY.digest) is None and store.manifests("clean") == []
    assert list((store.root / "clean").iterdir()) == []
    assert not held(store, "clean", KEY.digest)
    store.build(KEY, fill, said.append)
    assert_whole(store)


def test_work_that_raises_when_forced_leaves_the_old_output(store: Store, said: list[str]):
    store.build(KEY, fill, said.append)

    def work(folder: Path) -> dict[str, Any]:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        store.build(KEY, work, said.append, force=True)
    assert_whole(store)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


@pytest.mark.parametrize(
    ("damage", "told"), [(Path.unlink, "is missing"), (cut, "bytes instead of"), (flip, "was altered")]
)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_output_is_noticed_told_and_made_again_alone(
    store: Store, said: list[str], damage: Callable[[Path], None], told: str, name: str
):
    other = KEY.model_copy(update={"settings": {"n": 2}})
    work = Worker()
    before, _ = store.build(KEY, work, said.append)
    store.build(other, work, said.append)
    damage(store.file(before, name))

    _, cached = store.build(KEY, work, said.append)
    _, cached_other = store.build(other, work, said.append)
    assert (cached, cached_other, work.calls) == (False, True, 3)
    assert len(said) == 1 and name in said[0] and told in said[0] and "clean" in said[0]
    found = store.find("clean", KEY.digest)
    assert found is not None and store.problem(found) is None


@pytest.mark.parametrize("damage", [Path.unlink, cut])
def test_an_output_without_a_readable_manifest_is_made_again(
    store: Store, said: list[str], damage: Callable[[Path], None]
):
    store.build(KEY, fill, said.append)
    manifest = store.folder("clean", KEY.digest) / "manifest.json"
    damage(manifest)
    if manifest.exists():
        cut(manifest)
    _, cached = store.build(KEY, fill, said.append)
    assert not cached
    assert_whole(store)


def test_a_run_killed_in_the_middle_of_work_leaves_nothing_that_counts(store: Store, said: list[str], tmp_path: Path):
    code = """
def work(folder):
    (folder / "train.en").write_text("half of it")
    note("working")
    time.sleep(60)

Store(root).build(key, work, note)
"""
    log = tmp_path / "log"
    with python(code, store.root, log) as process:
        wait_for(lambda: noted(log) == ["working"])
        assert held(store, "clean", KEY.digest)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert store.find("clean", KEY.digest) is None and store.manifests("clean") == []
    assert not store.folder("clean", KEY.digest).exists()
    assert not held(store, "clean", KEY.digest)
    _, cached = store.build(KEY, fill, said.append)
    assert not cached and said == []
    assert_whole(store)


def test_two_processes_that_want_the_same_key_work_once(store: Store, tmp_path: Path):
    code = """
def work(folder):
    note("working")
    time.sleep(0.5)
    (folder / "train.en").write_text("one\\n")
    return {}

manifest, cached = Store(root).build(key, work, lambda text: None)
note(f"done {cached} {manifest.key}")
"""
    log = tmp_path / "log"
    with python(code, store.root, log) as first, python(code, store.root, log) as second:
        assert [process.wait(30) for process in (first, second)] == [0, 0]
    assert sorted(noted(log)) == [f"done False {KEY.digest}", f"done True {KEY.digest}", "working"]


def test_a_lock_is_free_at_once_when_its_holder_is_killed(store: Store, said: list[str], tmp_path: Path):
    code = """
with Store(root).lock("clean", key.digest, note):
    note("held")
    time.sleep(60)
"""
    log = tmp_path / "log"
    with python(code, store.root, log) as process:
        wait_for(lambda: noted(log) == ["held"])
        waiting = threading.Thread(target=store.build, args=(KEY, fill, said.append))
        waiting.start()
        wait_for(lambda: bool(said))
        assert "waiting" in said[0] and store.find("clean", KEY.digest) is None
        process.kill()
        waiting.join(10)
        assert not waiting.is_alive()
    assert_whole(store)


def test_a_lock_keeps_threads_of_one_process_apart_too(store: Store, said: list[str]):
    work = Worker()

    def slowly(folder: Path) -> dict[str, Any]:
        time.sleep(0.1)
        return work(folder)

    threads = [threading.Thread(target=store.build, args=(KEY, slowly, said.append)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert work.calls == 1
    assert_whole(store)


def test_other_keys_are_not_locked(store: Store, said: list[str]):
    with store.lock("clean", "aa", said.append):
        assert held(store, "clean", "aa")
        assert not held(store, "clean", "bb") and not held(store, "tokenize", "aa")
        with store.lock("clean", "bb", said.append):
            pass
    assert not held(store, "clean", "aa")
    assert said == []


def test_a_file_that_is_not_there_is_an_error_with_advice(store: Store, said: list[str]):
    manifest, _ = store.build(KEY, fill, said.append)
    with pytest.raises(StoreError, match="stage clean will be redone"):
        store.file(manifest, "no-such-file")
    store.file(manifest, "train.en").unlink()
    with pytest.raises(StoreError, match=r"train\.en is missing"):
        store.file(manifest, "train.en")


def test_manifests_come_oldest_first_and_skip_work_and_partial_folders(store: Store, said: list[str]):
    for number, created in enumerate(("2024-01-02", "2024-01-01")):
        key = KEY.model_copy(update={"settings": {"n": number}})
        manifest, _ = store.build(key, fill, said.append)
        text = manifest.model_copy(update={"created": created}).model_dump_json()
        (store.folder("clean", key.digest) / "manifest.json").write_text(text, encoding="utf-8")
    for name in ("work-1", ".x.partial", ".x.old"):
        link_tree(store.folder("clean", key.digest), store.folder("clean", name))
    assert [manifest.created for manifest in store.manifests("clean")] == ["2024-01-01", "2024-01-02"]
    assert store.manifests("train") == []


def test_replace_puts_the_new_folder_in_the_place_of_the_old(tmp_path: Path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace(tmp_path / "new", tmp_path / "old")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["old", "old/new"]


def test_remove_takes_what_is_there_and_minds_nothing_else(tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    remove(tmp_path / "a")
    remove(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_link_tree_links_files_and_makes_folders(tmp_path: Path):
    source = tmp_path / "source"
    source.mkdir()
    fill(source)
    link_tree(source, tmp_path / "deep" / "target")
    for name, text in FILES.items():
        copy = tmp_path / "deep" / "target" / name
        assert copy.samefile(source / name) and copy.read_text(encoding="utf-8") == text


def test_link_tree_copies_where_links_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(source: str, target: str) -> None:
        raise OSError("another disk")

    monkeypatch.setattr(os, "link", refuse)
    source = tmp_path / "source"
    source.mkdir()
    fill(source)
    link_tree(source, tmp_path / "target")
    for name, text in FILES.items():
        copy = tmp_path / "target" / name
        assert not copy.samefile(source / name) and copy.read_text(encoding="utf-8") == text
