"""Runs of the real command in a data folder of their own."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from nmt.cluster.launch import die_with_parent

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

    def start(self, *words, **how) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*words), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how
        )

    @contextmanager
    def server(self):
        """A Prefect server of our own; runs inside the block use it."""
        port = free_port()
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


class Ui(Place):
    """`wmtflow ui` as a user starts it, and what a user does in another terminal: no address is exported there."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "ui.log"
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()

    def start_ui(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command("ui", "--port", self.port),
                env=self.env,
                stdout=log,
                stderr=log,
                cwd=self.elsewhere,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),
            )
        self.until(lambda: "Worker" in self.log.read_text() and "started!" in self.log.read_text(), 240)

    def until(self, condition, seconds):
        """Wait for something to come true; what it gives is returned."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"not within {seconds} s; {self.log.read_text()[-3000:]}"
            time.sleep(0.5)
        return found

    def prefect(self, *words):
        command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", *map(str, words)]
        return subprocess.run(
            command,
            env=self.env,
            capture_output=True,
            text=True,
            cwd=self.elsewhere,
            timeout=900,
            stdin=subprocess.DEVNULL,
        )

    def api(self, path, body=None):
        """Ask the server, as its own clients do: again if its database is busy (503)."""
        url = f"{self.url}/api{path}"
        for _ in range(10):
            answer = httpx.get(url, timeout=120) if body is None else httpx.post(url, json=body, timeout=120)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(2)
        return answer.raise_for_status().json()

    def deploy_run(self, deployment, **parameters) -> str:
        """Start a run of a deployment, as the dashboard's button does; gives its id."""
        found = self.api(f"/deployments/name/{deployment}")
        body = {"parameters": found["parameters"] | parameters, "state": {"type": "SCHEDULED"}}
        return self.api(f"/deployments/{found['id']}/create_flow_run", body)["id"]

    def state(self, run) -> str:
        return self.api(f"/flow_runs/{run}")["state"]["name"]

    def ended(self, run, seconds=400) -> str:
        """Wait for a run to end; gives the state's name."""
        last = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
        return self.until(
            lambda: (state := self.api(f"/flow_runs/{run}")["state"])["type"] in last and state["name"], seconds
        )

    def tasks(self, run) -> dict[str, str]:
        """The last state of each of a run's tasks, by the task's name."""
        body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC"}
        return {task["name"]: task["state"]["name"] for task in self.api("/task_runs/filter", body)}

    def logs(self, run) -> str:
        found, offset = [], 0
        while True:
            body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC", "limit": 200, "offset": offset}
            page = self.api("/logs/filter", body)
            found += [line["message"] for line in page]
            offset += len(page)
            if len(page) < 200:
                return "\n".join(found)

    def events(self, name, run=None) -> list[dict]:
        """Events of a name, newest first; of one flow run if it is given."""
        wanted = {"event": {"name": [name]}, "order": "DESC"}
        if run:
            wanted["resource"] = {"id": [f"prefect.flow-run.{run}"]}
        return self.api("/events/filter", {"filter": wanted})["events"]

    def ranks(self) -> list[psutil.Process]:
        """The training processes that work in our data folder."""
        return [one for one in psutil.process_iter() if f"{self.data}/store/train" in " ".join(command_line(one))]

    def in_training(self, run, step) -> None:
        """Wait until a run's log has a step: lines arrive while it trains."""
        self.until(lambda: f"step {step}/" in self.logs(run) or self.state(run) in ("Failed", "Crashed"), 300)
        assert self.state(run) == "Running", self.logs(run)[-3000:]


def command_line(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture(scope="session")
def ui(tmp_path_factory):
    """One server and one worker for all tests that need them."""
    place = Ui(tmp_path_factory.mktemp("ui"))
    place.start_ui()
    yield place
    if place.process.poll() is None:
        place.process.send_signal(signal.SIGINT)
        place.process.wait(60)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("e2e"))
