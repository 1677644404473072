"""Wrong requests: one clear message, the right exit status, no traceback, nothing left in the store."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def wmtflow(tmp_path):
    """The real command, in a folder of its own."""

    def run(*words):
        env = os.environ | {"WMTFLOW_DATA": str(tmp_path / "data")}
        command = [str(Path(sys.executable).with_name("wmtflow")), *map(str, words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, cwd=tmp_path, timeout=120)

    return run


def written(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trian: {steps: 5}", "trian: unknown key; did you mean 'train'?"),
        ("train: {step: 5}", "train.step: unknown key; did you mean 'steps'?"),
        ("train: {layers: -1}", "train.layers: input should be greater than or equal to 1, found -1"),
        ("train: {steps: many}", "train.steps: input should be a valid integer"),
        ("train: {heads: 3}", "width 512 must be even and a multiple of heads (3)"),
        ("download: {corpus: wmt61}", "no corpus 'wmt61'; did you mean 'wmt16'?"),
        ("[1, 2]", "expected sections such as 'train:', found list"),
        ("train: {", "cannot be read as YAML"),
        (
            "download: {corpus: files, train: {source: a.en, target: a.de}, dev: {source: a.en, target: a.de},"
            " test: {source: a.en, target: a.de}}",
            "there is no file",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "status"])
def test_bad_settings(wmtflow, tmp_path, command, text, says):
    done = wmtflow(command, written(tmp_path, text))
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words", [["run", "demo"], ["ui"]])
def test_a_data_folder_that_cannot_be_made(wmtflow, tmp_path, words):
    (tmp_path / "data").write_text("a file in the way")
    done = wmtflow(*words)
    assert done.returncode == 2
    assert "cannot be written to: " in done.stderr and "export WMTFLOW_DATA=FOLDER" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_missing_settings_file_names_the_nearest(wmtflow):
    done = wmtflow("run", "config/dmeo.yaml")
    assert (done.returncode, done.stderr) == (
        2,
        "ConfigError: no settings file 'config/dmeo.yaml'; did you mean 'demo'?\n",
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "demo", "--from", "tokenise"], "no stage 'tokenise'; did you mean 'tokenize'?"),
        (["run", "demo", "--from", "train", "--only", "train"], "exclude each other"),
        (["run", "demo", "--set", "train.steps"], "expected section.key=value"),
        (["translate", "nobody"], "no finished run 'nobody'"),
        (["score", "nobody"], "no finished run 'nobody'"),
        (["report", "nobody"], "no finished run 'nobody'"),
        (["run"], "Missing argument"),
    ],
)
def test_bad_requests(wmtflow, words, says):
    done = wmtflow(*words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "demo", "--set", "seed=99999999999999999999999"], "seed: input should be less than 2147483648"),
        (["status", "demo", "--name", "a" * 300], "name: string should have at most 100 characters"),
        (["run", "demo", "--from", "train"], "cannot begin at train: not in the store: download (never run)"),
        (["run", "demo", "--set", "train.average=9"], "average 9 is over keep 6"),
        (["translate", "x", "--beam", "-1"], "greater than or equal to 1"),
    ],
)
def test_what_can_be_known_beforehand_is_refused_before_prefect_starts(wmtflow, tmp_path, words, says):
    done = wmtflow(*words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr and "Starting temporary server" not in done.stderr
    assert not (tmp_path / "data").exists()
