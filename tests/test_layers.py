"""Imports point down only, and TensorFlow and Prefect stay where they belong."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_contracts_of_the_layers_hold():
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("command", [["--help"], ["status", "demo"], ["runs"]])
def test_quick_commands_load_neither_tensorflow_nor_prefect(command, tmp_path):
    code = (
        "import sys; sys.argv[1:] = " + repr(command) + "\n"
        "from flows.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'tensorflow', 'prefect', 'horovod', 'matplotlib', 'ctranslate2'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    env = {"PATH": "/usr/bin:/bin", "WMTFLOW_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
