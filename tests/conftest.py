"""What holds for every test: no user's Prefect profile, no user's data, quiet TensorFlow."""

import os
import signal
import tempfile

import pytest
from xdist.scheduler import LoadScopeScheduling

# Before anything imports Prefect or TensorFlow: both read these once.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="wmtflow-prefect-")
os.environ["WMTFLOW_DATA"] = tempfile.mkdtemp(prefix="wmtflow-data-")
for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "WMTFLOW_MIRROR"):
    os.environ.pop(name, None)
# What a shell starts with & ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Together(LoadScopeScheduling):
    """How two processes share the tests: those of tests/e2e, which are first, in one; the other takes the rest by file.

    Most of the time tests/e2e waits for processes it has started. Its files share a dashboard, and one needs the other.
    """

    def _split_scope(self, nodeid):
        return "e2e" if "/e2e/" in nodeid else nodeid.split("::")[0]


def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """With WMTFLOW_NO_SKIPS, a test that cannot run on this machine fails and says what it needs."""
    report = (yield).get_result()
    if report.skipped and os.environ.get("WMTFLOW_NO_SKIPS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where nothing may be skipped: {call.excinfo.value if call.excinfo else ''}"
