"""What `make ui` says when it cannot start: one message that names the way out, and nothing left running."""

import os
import socket
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture
def ui(tmp_path):
    """The real command, with a Prefect home and a data folder of its own."""

    def run(*words, **env):
        places = {"WMTFLOW_DATA": str(tmp_path / "data"), "PREFECT_HOME": str(tmp_path / "prefect")}
        command = [str(Path(sys.executable).with_name("wmtflow")), "ui", *map(str, words)]
        return subprocess.run(command, env=os.environ | places | env, capture_output=True, text=True, timeout=240)

    return run


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def other_server():
    """A program that answers as Prefect's server does when asked for its health."""

    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_a_port_in_use(ui, listener):
    done = ui("--port", listener)
    assert done.returncode == 1
    assert f"port {listener} is in use by another program. Choose another: make ui PORT={listener + 100}" in done.stderr


def test_a_server_that_is_not_ours(ui, other_server):
    done = ui("--port", other_server)
    assert done.returncode == 1
    assert f"export PREFECT_API_URL=http://127.0.0.1:{other_server}/api" in done.stderr


def test_a_named_server_that_does_not_answer(ui):
    done = ui(PREFECT_API_URL="http://127.0.0.1:1/api")
    assert done.returncode == 1
    assert "PREFECT_API_URL is http://127.0.0.1:1/api, and no Prefect server answers there" in done.stderr


def test_a_run_does_not_wait_for_a_server_that_is_gone(tmp_path):
    env = os.environ | {"WMTFLOW_DATA": str(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:1/api"}
    command = [str(Path(sys.executable).with_name("wmtflow")), "run", "demo"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Start it (make ui), or: unset PREFECT_API_URL" in done.stderr and "Traceback" not in done.stderr


def test_a_database_of_another_version(ui, tmp_path):
    (tmp_path / "prefect").mkdir()
    with sqlite3.connect(tmp_path / "prefect/prefect.db") as database:
        database.execute("create table alembic_version (version_num varchar(32) not null)")
        database.execute("insert into alembic_version values ('fromthefuture')")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = ui("--port", port)
    assert done.returncode == 1
    assert "was made by another version of Prefect" in done.stderr, done.stdout + done.stderr
    assert f"mv {tmp_path}/prefect/prefect.db" in done.stderr
    profiles = tmp_path / "prefect/profiles.toml"
    assert not profiles.exists() or str(port) not in profiles.read_text()
