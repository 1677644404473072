"""Runs of the real command in a data folder of their own."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = """
download: {corpus: builtin, train_pairs: 1_000, dev_pairs: 20, test_pairs: 20}
learn_bpe: {merges: 300}
train:
  {ranks: 2, layers: 1, width: 32, heads: 2, feed_forward: 64, steps: 30, batch: 256, batch_unit: tokens,
   warmup: 20, eval_every: 15, checkpoint_every: 10, log_every: 5, average: 2}
score: {beam: 2, max_length: 20}
"""


class Place:
    """A data folder and a settings file, and the command run on them."""

    def __init__(self, folder: Path):
        self.data = folder / "data"
        self.config = folder / "small.yaml"
        self.config.write_text(SMALL)
        self.env = os.environ | {"WMTFLOW_DATA": str(self.data), "PREFECT_HOME": str(folder / "prefect")}

    def command(self, *words) -> list[str]:
        return [str(Path(sys.executable).with_name("wmtflow")), *map(str, words)]

    def wmtflow(self, *words, text=None) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*words),
            env=self.env,
            input=text,
            capture_output=True,
            text=True,
            cwd=self.data.parent,
            timeout=600,
        )

    def start(self, *words) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*words), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @contextmanager
    def server(self):
        """A Prefect server of our own; runs inside the block use it."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        prefect = str(Path(sys.executable).with_name("prefect"))
        log = (self.data.parent / "server.log").open("w")
        env = self.env | {"PREFECT_SERVER_API_PORT": str(port)}
        process = subprocess.Popen([prefect, "server", "start"], env=env, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/api/health", process)
            self.env["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
            yield
        finally:
            self.env.pop("PREFECT_API_URL", None)
            process.terminate()
            process.wait(30)
            log.close()


def wait_for(url, process):
    for _ in range(240):
        assert process.poll() is None, "the Prefect server ended"
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    pytest.fail("the Prefect server did not start")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("e2e"))
