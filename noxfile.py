"""The checks of this repository, each in an environment of its own: ``nox -s tests``, ``nox -l`` lists them all."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shutil

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True

ROOT = pathlib.Path(__file__).parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]
EXTRAS = "data,fast,tune"
QUICK = "not slow"
PYTEST = ["pytest", "--numprocesses=logical", "--maxprocesses=4", "--dist=worksteal"]

if os.environ.get("PIP_FIND_LINKS"):  # uv separates by commas what pip separates by blanks, under a name of its own
    os.environ.setdefault("UV_FIND_LINKS", ",".join(os.environ["PIP_FIND_LINKS"].split()))
if (ROOT.parent / "shared" / "data").is_dir():
    os.environ.setdefault("KDLGT_DATA", str(ROOT.parent / "shared" / "data"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the test workers already fill the cores


def install(session: nox.Session, *packages: str, groups: tuple[str, ...] = ()) -> None:
    """Install packages and dependency groups under the constraints (pip before 25.1 knows no groups)."""
    session.install(*packages, *nox.project.dependency_groups(PROJECT, *groups), *CONSTRAINTS)


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Train on the embedded digits; print accuracy with and without the encoding, linear against exact."""
    install(session, "--editable", ".")
    session.run("kdlgt", "train", *session.posargs, env={"OMP_NUM_THREADS": None})


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but the slow ones."""
    install(session, "--editable", f".[{EXTRAS}]", groups=("test", "lint"))
    session.run(*PYTEST, "-m", QUICK, *session.posargs)


@nox.session(default=False)
def realdata(session: nox.Session) -> None:
    """The slow tests, on real data; ``-- -k NAME`` takes a subset."""
    install(session, "--editable", f".[{EXTRAS}]", groups=("test",))
    session.run(*PYTEST, "-m", "slow", *session.posargs)


@nox.session(default=False)
def minimums(session: nox.Session) -> None:
    """The tests with the lowest versions that pyproject allows; torch stays at its constraint."""
    project = PROJECT["project"]
    wanted = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    lowest = [needs.replace(">=", "==") for needs in wanted if not needs.startswith("torch>=")]
    install(session, *lowest, "--editable", ".", groups=("test",))
    outdated = ["-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning"]  # old releases under newer ones
    session.run(*PYTEST, *outdated, "-m", QUICK, *session.posargs)


@nox.session
def bare(session: nox.Session) -> None:
    """The core alone: no plugin and no tuning is there to be imported, and its tests pass."""
    copy = pathlib.Path(session.create_tmp()).resolve() / "core"
    shutil.rmtree(copy, ignore_errors=True)
    copy_core(copy)
    install(session, str(copy), groups=("test",))
    first_party = sorted(folder.name for group in ("plugins", "tuning") for folder in (ROOT / group).glob("kdlgt_*"))
    session.run("python", "-c", f"import importlib.util as u; assert not [n for n in {first_party} if u.find_spec(n)]")
    with session.chdir(copy):
        session.run(*PYTEST, "-m", f"{QUICK} and not plugins", *session.posargs)


def copy_core(target: pathlib.Path) -> None:
    """Copy the repository without ``plugins/`` and ``tuning/``, and strip both from its pyproject."""
    for folder in ("kdlgt", "tests", "examples"):
        ignored = shutil.ignore_patterns("__pycache__", *(("plugins", "tuning") if folder == "tests" else ()))
        shutil.copytree(ROOT / folder, target / folder, ignore=ignored)
    for file in ("README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / file, target)
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not re.search(r'= "kdlgt_\w+|^ *"(plugins|tuning)/', line)]
    (target / "pyproject.toml").write_text("".join(kept), encoding="utf-8")


@nox.session
def types(session: nox.Session) -> None:
    """mypy in strict mode, tests included."""
    install(session, "--editable", f".[{EXTRAS}]", groups=("test", "types"))
    session.run("mypy", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and import directions."""
    install(session, groups=("lint",))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": os.pathsep.join([".", "plugins", "tuning"])})


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, warnings as errors; ``-- DIR`` puts it elsewhere."""
    install(session, "--editable", ".", groups=("docs",))
    target = session.posargs[0] if session.posargs else "docs/_build"
    session.run("sphinx-build", "-W", "--keep-going", "-d", f"{target}/doctrees", "docs", f"{target}/html")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """The benchmarks: ``-- attention``, ``-- model --help`` ..."""
    install(session, "--editable", ".")
    session.run("kdlgt", "bench", *(session.posargs or ["attention"]), env={"OMP_NUM_THREADS": None})


@nox.session(default=False)
def gpu(session: nox.Session) -> None:
    """The tests that run on every device, on a CUDA device; torch unconstrained, so that its CUDA build is taken."""
    session.install("--editable", f".[{EXTRAS}]", *nox.project.dependency_groups(PROJECT, "test"))
    session.run("python", "-c", "import torch; assert torch.cuda.is_available(), 'no CUDA device'")
    session.run("pytest", "-m", QUICK, "-k", "cuda", *session.posargs)
