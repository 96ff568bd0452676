"""Set-up: environment, locked packages, Java, JARs. Does what is missing, nothing when nothing is.

Runs on the standard library of the Python that was found, before anything is installed.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from medallion.errors import MedallionError  # noqa: E402 (the project is not installed yet)
from medallion.spark.jars import LOCK, S3_LOCK, digest, fetch_jars  # noqa: E402
from medallion.spark.java import java_home  # noqa: E402

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
JARS = ROOT / ".jars"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="scripts/bootstrap")
    parser.add_argument("--dev", action="store_true", help="also what testing and checking need")
    parser.add_argument("--s3", action="store_true", help="also the JARs for a lake on s3a://; --dev has them too")
    wanted = parser.parse_args()
    try:
        set_up(dev=wanted.dev, s3=wanted.s3 or wanted.dev)
    except MedallionError as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; run it again to go on")


def set_up(*, dev: bool, s3: bool = False) -> None:
    """Make the environment complete. Raises MedallionError, saying what to do, when it cannot be."""
    java = find_or_install_java()
    make_venv()
    for lock in ("requirements.txt", "requirements-dev.txt") if dev else ("requirements.txt",):
        install(ROOT / lock)
    (spark,) = VENV.glob("lib/python*/site-packages/pyspark")
    fetch_jars(java, LOCK, JARS, spark, say)
    if s3:
        fetch_jars(java, S3_LOCK, JARS / "s3", spark, say)
    archive_classes()
    if dev and not (os.environ.get("CHROMIUM") or Path("/usr/bin/chromium").exists() or apt_install("chromium")):
        say("there is no chromium, so tests in a browser are skipped: apt-get install chromium, or set CHROMIUM")


def find_or_install_java() -> Path:
    try:
        return java_home()
    except MedallionError:
        # Debian and Ubuntu releases carry one or both of the two.
        if not (apt_install("openjdk-17-jre-headless") or apt_install("openjdk-21-jre-headless")):
            raise
        return java_home()


def make_venv() -> None:
    if succeeds(PYTHON, "--version"):
        return
    if find_spec("ensurepip") is None:
        package = f"python3.{sys.version_info.minor}-venv"
        if not apt_install(package):
            raise MedallionError(f"Python has no venv module: apt-get install {package}, and run again")
    say(f"making .venv with Python {sys.version.split()[0]}")
    run("making .venv", sys.executable, "-m", "venv", VENV)


def install(lock: Path) -> None:
    """Install ``lock`` and this project, unless the environment already holds just that."""
    bootstrap, project = ROOT / "scripts" / "bootstrap.txt", ROOT / "pyproject.toml"
    stamp = VENV / f"{lock.name}.installed"
    wanted = digest(bootstrap, lock, project)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing what {lock.name} locks; the first time this takes a minute or two")
    if not succeeds(PYTHON, "-m", "pip", "--version"):
        run("adding pip", PYTHON, "-m", "ensurepip")
    hashed = ("--require-hashes", "--requirement")
    run("installing uv", PYTHON, "-m", "pip", "install", "--quiet", *hashed, bootstrap)
    uv = (PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON)
    # Where Python may write no byte code, every start of a process would compile what it imports again.
    run(f"installing {lock.name}", *uv, "--compile-bytecode", *hashed, lock)
    # Built from what is here by what is here, without a network; as a path, so new packages are found at once.
    editable = ("--no-deps", "--no-build-isolation", "--config-settings", "editable_mode=compat", "--editable", ROOT)
    run("installing the project", *uv, "--quiet", "--offline", *editable)
    stamp.write_text(wanted)


def archive_classes() -> None:
    """Write the class archive that Spark drivers start from, where the one that fits is missing."""
    module = "medallion.spark.class_archive"
    where = f"from {module} import archive_path; print(archive_path({str(JARS)!r}))"
    lookup = subprocess.run([PYTHON, "-c", where], cwd=ROOT, capture_output=True, text=True)
    if lookup.returncode == 0 and not Path(lookup.stdout.strip()).exists():
        say("archiving the classes that Spark loads, which makes each of its starts cheaper; this takes half a minute")
        if not succeeds(PYTHON, "-m", module, JARS):
            say(f"that failed, and Spark starts without it: {PYTHON} -m {module} {JARS} says why")


def apt_install(package: str) -> bool:
    """Install a Debian package when this user may; whether it is installed now."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    say(f"installing {package}")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    if not succeeds("apt-get", "install", "--yes", "--no-install-recommends", package):
        succeeds("apt-get", "update")
        return succeeds("apt-get", "install", "--yes", "--no-install-recommends", package)
    return True


def run(what: str, *command: str | Path, cwd: Path | str = ROOT, quiet: bool = False) -> None:
    """Run a command; when ``quiet``, show what it says only if it fails. Raises MedallionError when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        print(done.stdout or "", end="", flush=True)
        raise MedallionError(f"{what} failed: see above, mend and run again. The command was: {shlex.join(words)}")


def succeeds(*command: str | Path) -> bool:
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def say(what: str) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print(textwrap.fill(f"setup: {what}", width, subsequent_indent="    ") if width else f"setup: {what}", flush=True)


if __name__ == "__main__":
    main()
