"""Make `.venv`: the locked packages, Horovod built for them, and wmtflow itself.

    python3 scripts/setup.py [--gpu] [--no-horovod]

Standard library only, because it runs before anything is installed. Run again it finds its stamp in
`.venv` and returns at once; whatever is missing or out of date is done, and nothing else. A `.venv`
without a stamp is a half-made one and is made again from the start.

Horovod is compiled against the TensorFlow it will run with. The wheel is kept outside the clone, under
a folder named after everything that makes two builds differ, so each machine builds it once.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "wmtflow-setup.json"
CACHE = Path(
    os.environ.get("WMTFLOW_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wmtflow"
)

HOROVOD = "0.28.1"
HOROVOD_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
PYTHONS = ((3, 10), (3, 12))  # first and last that TensorFlow 2.18 and Prefect 3.8 both support
GIB = 1024**3


class SetupError(Exception):
    """Why set-up cannot go on, and the command that helps: shown as one line."""


def main() -> None:
    """Parse the command line, set up, and turn a `SetupError` into one line and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gpu", action="store_true", help="TensorFlow with CUDA, Horovod with NCCL")
    parser.add_argument("--no-horovod", action="store_true", help="one training process; needs no compiler")
    options = parser.parse_args()
    try:
        use_supported_python()
        lock = os.open(ROOT, os.O_RDONLY)  # two `make` at once: the second waits, then finds the work done
        fcntl.flock(lock, fcntl.LOCK_EX)
        set_up(gpu=options.gpu, horovod=not options.no_horovod)
    except SetupError as error:
        sys.exit(f"set-up: {error}")
    except KeyboardInterrupt:
        sys.exit("set-up: interrupted; run it again and it goes on")


def set_up(*, gpu: bool, horovod: bool) -> None:
    """Bring `.venv` to the wanted state; nothing happens where it is there already."""
    lock = ROOT / ("requirements-gpu.lock" if gpu else "requirements.lock")
    have = read_stamp()
    # A Horovod that is installed already does no harm to someone who asks for none.
    flags = horovod_flags(gpu) if horovod else have.get("horovod")
    base = {"root": str(ROOT), "python": platform.python_version(), "lock": digest(lock, ROOT / "pyproject.toml")}
    want = {**base, "horovod": flags}
    if have == want:
        print("set-up: .venv is up to date")
        return
    began = time.monotonic()
    check_machine(gpu=gpu, compiler=horovod and flags != have.get("horovod") and not cached_wheel(lock, gpu))
    if {key: have.get(key) for key in base} != base:
        STAMP.unlink(missing_ok=True)
        if have.get("root") != str(ROOT) or have.get("python") != base["python"]:
            say(f"making .venv with Python {platform.python_version()}")
            run([sys.executable, "-m", "venv", "--clear", str(VENV)], "venv")
        say(f"installing the packages of {lock.name} (some minutes the first time)")
        pip("install", "--no-deps", "--require-hashes", "--requirement", str(lock))  # the lock is complete
        pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    if horovod and flags != have.get("horovod"):
        wheel = cached_wheel(lock, gpu) or build_horovod(lock, gpu)
        say(f"installing {wheel.name}")
        pip("install", "--no-deps", "--force-reinstall", str(wheel))
    temporary = STAMP.with_suffix(".tmp")
    temporary.write_text(json.dumps(want, indent=2) + "\n")
    temporary.replace(STAMP)
    say(f"done in {clock(time.monotonic() - began)}")


def use_supported_python() -> None:
    """Go on under a Python that the packages support: this one, or another on the PATH."""
    first, last = PYTHONS
    if first <= sys.version_info[:2] <= last:
        return
    for minor in range(last[1], first[1] - 1, -1):
        other = shutil.which(f"python3.{minor}")
        if other and subprocess.run([other, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            os.execv(other, [other, *sys.argv])
    raise SetupError(
        f"Python 3.{first[1]} to 3.{last[1]} is needed, this is {platform.python_version()}. "
        "Fix: apt-get install -y python3.11 python3.11-venv, or make setup PYTHON=/path/to/python3.11"
    )


def check_machine(*, gpu: bool, compiler: bool) -> None:
    """Everything that would otherwise fail minutes into the work."""
    try:
        import ensurepip  # noqa: F401  (Debian ships Python without it)
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            "Python's venv module is missing. "
            f"Fix: apt-get install -y python3.{sys.version_info.minor}-venv (or python3-venv)"
        ) from None
    need = 12 if gpu else 4
    for folder in {ROOT, Path(tempfile.gettempdir())}:
        free = shutil.disk_usage(folder).free / GIB
        if free < need:
            raise SetupError(
                f"{need} GiB of free disk are needed, {folder} has {free:.1f}. Fix: free some, or clone elsewhere"
            )
    if compiler and not shutil.which(os.environ.get("CXX", "g++")):
        raise SetupError(
            "no C++ compiler, and Horovod has to be compiled. Fix: apt-get install -y g++ make. "
            "Without one, `make demo RANKS=1` trains in one process and needs no Horovod"
        )
    if compiler and gpu and not shutil.which("nvcc"):
        raise SetupError("no nvcc, and Horovod's NCCL support needs it. Fix: apt-get install -y nvidia-cuda-toolkit")


def horovod_flags(gpu: bool) -> list[str]:
    """The build flags that this machine calls for, as `NAME=VALUE`."""
    flags = [
        "HOROVOD_WITH_TENSORFLOW=1",
        "HOROVOD_WITHOUT_PYTORCH=1",
        "HOROVOD_WITHOUT_MXNET=1",
        "HOROVOD_WITH_GLOO=1",
        "HOROVOD_WITH_MPI=1" if shutil.which("mpicxx") else "HOROVOD_WITHOUT_MPI=1",
    ]
    return flags + (["HOROVOD_GPU_OPERATIONS=NCCL"] if gpu else [])


def wheel_folder(lock: Path, gpu: bool) -> Path:
    """Where a Horovod wheel for this TensorFlow, this Python and these flags is kept."""
    pins = lock.read_text()
    tensorflow = re.search(r"^tensorflow(?:-cpu)?==(\S+)", pins, re.MULTILINE)
    assert tensorflow, f"{lock.name} pins no TensorFlow"
    libc = "-".join(platform.libc_ver())
    flags = hashlib.sha256(" ".join(horovod_flags(gpu)).encode()).hexdigest()[:8]
    python = f"cp{sys.version_info.major}{sys.version_info.minor}-{platform.machine()}-{libc}"
    kind = ("cuda" if gpu else "cpu") + ("-mpi" if shutil.which("mpicxx") else "")
    return CACHE / "wheels" / f"horovod-{HOROVOD}-tf{tensorflow[1]}-{kind}-{python}-{flags}"


def cached_wheel(lock: Path, gpu: bool) -> Path | None:
    """The wheel an earlier set-up built, if there is one."""
    return next(wheel_folder(lock, gpu).glob("horovod-*.whl"), None)


def build_horovod(lock: Path, gpu: bool) -> Path:
    """Compile Horovod with the packages of `.venv` and put the wheel into the cache."""
    folder = wheel_folder(lock, gpu)
    say(f"compiling Horovod {HOROVOD}, about 5 minutes on 2 cores; later set-ups take it from {folder}")
    env = {**os.environ, **dict(flag.split("=", 1) for flag in horovod_flags(gpu))}
    env["PATH"] = f"{VENV / 'bin'}{os.pathsep}{env['PATH']}"  # the locked CMake, not the machine's
    env["MAKEFLAGS"] = f"-j{os.cpu_count() or 1}"
    if gpu:
        nccl = next(VENV.glob("lib/python3*/site-packages/nvidia/nccl"))
        env |= {"HOROVOD_NCCL_INCLUDE": str(nccl / "include"), "HOROVOD_NCCL_LIB": str(nccl / "lib")}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as work:
        pinned = Path(work, "horovod.txt")
        pinned.write_text(f"horovod=={HOROVOD} --hash=sha256:{HOROVOD_SHA256}\n")
        pip(
            *("wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary", "horovod", "--verbose"),
            *("--require-hashes", "--requirement", str(pinned), "--wheel-dir", str(Path(work, "wheel"))),
            env=env,
        )
        if not folder.exists():
            Path(work, "wheel").rename(folder)
    return next(folder.glob("horovod-*.whl"))


def pip(*words: str, env: dict[str, str] | None = None) -> None:
    """Run the venv's pip; its output goes to a log that is shown only when it fails."""
    command = [str(VENV / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    run(command, f"pip {words[0]}", env)


def run(command: list[str], what: str, env: dict[str, str] | None = None) -> None:
    """Run `command`, saying every few seconds how far it is; raise with the log's end if it fails."""
    log = Path(tempfile.gettempdir(), f"wmtflow-setup-{os.getuid()}.log")
    began = said = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env)
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if time.monotonic() - said > 15:
                    said = time.monotonic()
                    say(f"  {clock(said - began)}  {last_word(log)}")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise SetupError(f"{what} failed with status {process.returncode}. Its last lines (all of it: {log}):\n{tail}")


def last_word(log: Path) -> str:
    """The newest line of a log that tells a person something."""
    lines = log.read_text(errors="replace").splitlines()
    telling = [
        line.strip() for line in lines if re.match(r"\s*(\[ *\d+%\]|Collecting|Downloading|Installing|Building)", line)
    ]
    return telling[-1][:100] if telling else ""


def read_stamp() -> dict[str, object]:
    """What the last complete set-up made; empty when there was none."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and (VENV / "bin/python").exists() else {}


def digest(*files: Path) -> str:
    """One hash over the contents of `files`."""
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def clock(seconds: float) -> str:
    """`75.2` as `1:15`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def say(text: str) -> None:
    """One line for the person who waits."""
    print(f"set-up: {text}", flush=True)


if __name__ == "__main__":
    main()
