"""`make ui`: a Prefect server, a worker and every deployment, in the foreground, and none of it left afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from flows.address import API_URL, answers, choose, profile, taken
from nmt.cluster.launch import die_with_parent, end_marked, marked
from nmt.config import ROOT, data_folder, require_data_folder
from nmt.errors import MachineError, RequestError

MARK = "WMTFLOW_UI"  # marks all processes that one `make ui` has started
START, STOP = 120.0, 15.0  # seconds that starting and stopping may take
Say = Callable[[str], None]


class Stopped(BaseException):
    """A signal asks to stop."""


def ui(port: int | None, say: Say) -> None:
    """Serve until a signal comes. A server that `PREFECT_API_URL` names is used; otherwise one is started here."""
    require_data_folder()
    folder = data_folder() / "ui"
    folder.mkdir(exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # which is how nohup keeps us from hearing of SIGHUP
            signal.signal(number, stop)
    try:
        with alone(folder / "lock") as note, contextlib.ExitStack() as stack:
            url, ours = choose(port)
            note(url)
            stack.callback(last_words, say, "stopped; no process is left")
            run(url, ours, folder, stack, say)
    except Stopped:
        return


def run(url: str, ours: bool, folder: Path, stack: contextlib.ExitStack, say: Say) -> None:
    """Start everything in its order, say where it is, and look after it until a signal comes."""
    token = uuid.uuid4().hex
    soon = {"PREFECT_WORKER_QUERY_SECONDS": "2"}  # its default of 10 makes people wait who have just pressed Run
    own = {API_URL: url, MARK: token, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PWD": str(ROOT)}
    env = soon | os.environ | own
    stack.callback(end_marked, MARK, token)
    children = []
    if ours:
        port = {"PREFECT_SERVER_API_PORT": str(urlsplit(url).port), "PREFECT_UI_API_URL": url}
        children.append(Child("server", [tool("prefect"), "server", "start"], env | port, folder / "server.log"))
        stack.callback(children[0].end)
        say("starting Prefect's server")
        wait_for(url, children[0])
        stack.enter_context(profile(url, folder / "profile"))
    say("putting in the work pool, the automations and the deployments of prefect.yaml")
    step([sys.executable, "-m", "flows.server"], env, "preparing the server")
    step([tool("prefect"), "--no-prompt", "deploy", "--all"], env, "prefect deploy --all")
    env["WMTFLOW_REPORTS_URL"] = stack.enter_context(
        reports(data_folder() / "runs", (urlsplit(url).port or 0) + 1 if ours else 0)
    )
    worker = Child("worker", [tool("prefect"), "worker", "start", "--pool", "local", "--limit", "1"], env, None)
    children.append(worker)
    stack.callback(end_worker, worker, token, say)
    say(f"\n  dashboard  {url.removesuffix('/api')}\n  reports    {env['WMTFLOW_REPORTS_URL']}\n")
    named = f"\n  export {API_URL}={url}" if API_URL in os.environ else ""  # otherwise the profile names it
    say(f"In another terminal:\n  export PATH={Path(sys.executable).parent}:$PATH{named}")
    say("  prefect deployment run 'experiment/demo' --watch\nCtrl-C here ends all of it.\n")
    while True:
        time.sleep(1)
        for child in children:
            child.look_after(say)


class Child:
    """A process of ours, in a session of its own so that Ctrl-C reaches us alone; it does not outlive us."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: Path | None) -> None:
        self.name, self.command, self.env, self.log = name, command, env, log
        self.start()

    def start(self) -> None:
        """Start it; its words go to the log, or to the terminal."""
        out = self.log.open("ab") if self.log else None
        self.process = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if out else None,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self.began = time.monotonic()
        if out:
            out.close()

    def look_after(self, say: Say) -> None:
        """Start it again if it has ended; one that cannot stay up for some seconds ends everything."""
        status = self.process.poll()
        if status is None:
            return
        if time.monotonic() - self.began < 10:
            where = f" See {self.log}." if self.log else ""
            raise MachineError(f"the {self.name} ends as soon as it is started, with status {status}.{where}")
        say(f"the {self.name} ended with status {status}; starting it again")
        self.start()

    def end(self) -> None:
        """Ask it to end, wait, then make it."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP)
        self.process.kill()
        self.process.wait()


def end_worker(worker: Child, token: str, say: Say) -> None:
    """End the runs first, so that the worker tells the server what became of them, then the worker."""
    flows = []
    for one in psutil.process_iter():  # by their mark: a worker that was killed has left its runs to nobody
        with contextlib.suppress(psutil.Error):
            if marked(one, MARK, token) and "prefect.engine" in one.cmdline():
                flows.append(one)
    if flows:
        last_words(say, "ending the runs; each can be resumed")
    for flow in flows:
        with contextlib.suppress(psutil.Error):
            flow.terminate()
    psutil.wait_procs(flows, STOP)
    time.sleep(2 if flows else 0)  # for the worker's last words to the server
    worker.end()


def wait_for(url: str, server: Child) -> None:
    """Wait until a server answers; if it ends instead, say why."""
    deadline = time.monotonic() + START
    while not answers(url):
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise MachineError(why_not(server.log))
        time.sleep(0.5)


def why_not(log: Path | None) -> str:
    """Why the server did not start, from its log."""
    text = log.read_text(encoding="utf-8", errors="replace") if log else ""
    if "Can't locate revision" in text.rpartition("Check out the dashboard")[2]:
        from prefect.settings import get_current_settings

        database = get_current_settings().home / "prefect.db"
        return (
            f"Prefect's database {database} was made by another version of Prefect, which this one cannot read. "
            f"Move it away (mv {database} {database}.old), or choose another place: PREFECT_HOME=FOLDER make ui"
        )
    return f"Prefect's server did not start. The end of {log}:\n" + "\n".join(text.splitlines()[-8:])


@contextlib.contextmanager
def reports(folder: Path, port: int) -> Iterator[str]:
    """Serve the runs' reports to browsers of this machine, at `port` if it is free; gives their address."""
    folder.mkdir(parents=True, exist_ok=True)
    where = (
        "127.0.0.1",
        port if port < 65536 and not taken(port) else 0,
    )  # the same port each time: links to reports are kept
    server = ThreadingHTTPServer(where, partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *words: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def alone(path: Path) -> Iterator[Callable[[str], None]]:
    """Be the only `make ui` of this data folder; gives a function to note the address for a second one to read."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise RequestError(f"make ui runs already: {file.read().strip()}. Use that one, or end it first.") from None

        def note(url: str) -> None:
            file.truncate(0)
            file.write(f"process {os.getpid()}, {url.removesuffix('/api')}\n")
            file.flush()

        yield note


def last_words(say: Say, text: str) -> None:
    """Say something while ending; where the terminal is gone, ending goes on all the same."""
    with contextlib.suppress(OSError):
        say(text)


def step(command: list[str], env: dict[str, str], what: str) -> None:
    """Run a command to its end; its words are shown only if it fails."""
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise MachineError(f"{what} failed with status {done.returncode}:\n{tail}")


def tool(name: str) -> str:
    """A command of our own environment."""
    return str(Path(sys.executable).with_name(name))


def stop(*_: object) -> None:
    """On the first signal: begin to stop; later ones find it under way."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped
