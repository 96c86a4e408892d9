"""The third-party road: the template as a real distribution, beside kdlgt, from the wheel to a training run."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

pytest.importorskip("hatchling", reason="hatchling builds the distributions; it is in the test group")
pytestmark = pytest.mark.plugins

ROOT = pathlib.Path(__file__).parents[2]
TEMPLATE = ROOT / "plugins" / "kdlgt-peers"

CONFIG = """
[data]
dataset = "{dataset}"

[model]
hidden = 8
heads = 2
layers = 1
rpe = [{{ name = "{name}", strength = 0.3 }}]

[train]
epochs = 2
lr = 1e-2
device = "cpu"
"""

COMMANDS = """
import sys
from kdlgt.cli.app import run
for line in sys.argv[1:]:
    code = run(line.split())
    assert code == 0, (line, code)
"""


def wheel(source: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Build a distribution's wheel from a copy, without a network and without leaving anything in the source."""
    copy = target / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", ".*_cache", "dist"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target / "dist")]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    (built,) = (target / "dist").glob("*.whl")
    return built


def unpacked(built: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Install a pure wheel the short way: it is an archive of what goes into site-packages."""
    with zipfile.ZipFile(built) as archive:
        archive.extractall(target)
    return target


def python(*arguments: object, path: pathlib.Path | None = None, executable: str = sys.executable) -> str:
    variables = os.environ | ({} if path is None else {"PYTHONPATH": str(path)})
    command = [executable, *map(str, arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def installed(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder for PYTHONPATH that holds the installed template."""
    return unpacked(wheel(TEMPLATE, tmp_path / "build"), tmp_path / "site")


def test_wheel_holds_the_package_and_its_entry_point(tmp_path: pathlib.Path) -> None:
    built = wheel(TEMPLATE, tmp_path)
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        points = archive.read("kdlgt_peers-0.1.0.dist-info/entry_points.txt").decode()
    assert {name.split("/")[0] for name in names} == {"kdlgt_peers", "kdlgt_peers-0.1.0.dist-info"}
    assert points.split() == ["[kdlgt]", "peers", "=", "kdlgt_peers"]


def test_installed_beside_kdlgt_it_is_listed_checked_and_trained_by_name(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "peers.toml").write_text(CONFIG.format(dataset="karate", name="peers"), encoding="utf-8")
    lines = [
        f"plugins --json {tmp_path}/plugins.json",
        f"check peers --json {tmp_path}/check.json",
        f"train {tmp_path}/peers.toml --run-dir {tmp_path}/run",
    ]
    python("-c", COMMANDS, *lines, path=installed)
    listed = json.loads((tmp_path / "plugins.json").read_text(encoding="utf-8"))
    (entry,) = [entry for entry in listed["encodings"] if entry["name"] == "peers"]
    assert entry["owner"] == "kdlgt-peers 0.1.0"
    assert listed["broken"] == []
    assert json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["passed"] is True
    assert json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))["test"]


@pytest.mark.slow
def test_in_a_fresh_environment(tmp_path: pathlib.Path) -> None:
    """A new virtual environment: the wheel installed by pip, kdlgt and what it needs from this environment."""
    built = wheel(TEMPLATE, tmp_path / "build")
    python("-m", "venv", tmp_path / "venv")
    fresh = str(tmp_path / "venv" / "bin" / "python")
    python("-m", "pip", "install", "--no-index", "--no-deps", built, executable=fresh)
    folder = pathlib.Path(
        python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))", executable=fresh).strip()
    )
    outer = sysconfig.get_path("purelib")
    # addsitedir also reads the .pth files there, through which an editable kdlgt is found.
    (folder / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n", encoding="utf-8")
    python("-m", "kdlgt", "plugins", "--json", tmp_path / "plugins.json", executable=fresh)
    listed = json.loads((tmp_path / "plugins.json").read_text(encoding="utf-8"))
    owners = {entry["name"]: entry["owner"] for entry in listed["encodings"]}
    assert owners["peers"] == "kdlgt-peers 0.1.0"
    assert "sapd" in owners
    assert python("-m", "kdlgt", "check", "peers", executable=fresh).count("isolation") == 1


def test_a_new_plugin_passes_its_own_tests_at_once(tmp_path: pathlib.Path) -> None:
    folder = new_plugin("far_away", tmp_path)
    text = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder)
    assert " passed" in text
    assert "failed" not in text


def test_its_tests_do_not_break_when_the_author_changes_options_and_parameters(tmp_path: pathlib.Path) -> None:
    folder = new_plugin("far_away", tmp_path)
    module = folder / "kdlgt_far_away" / "__init__.py"
    module.write_text(module.read_text().replace("strength", "steepness").replace("theta", "logit"))
    file = folder / "tests" / "test_far_away.py"
    python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, file, "-k", "config_names_it")


def test_every_name_of_the_new_plugin_is_its_own(tmp_path: pathlib.Path) -> None:
    text = (new_plugin("far_away", tmp_path) / "kdlgt_far_away" / "__init__.py").read_text()
    classes = re.findall(r"^class (\w+)", text, flags=re.MULTILINE)
    assert classes == ["FarAwayStructure", "FarAwayOptions", "FarAwayRPE"]


def new_plugin(name: str, parent: pathlib.Path) -> pathlib.Path:
    from kdlgt.cli.template import write_plugin

    folder = write_plugin(name, parent)
    left = [file for file in folder.rglob("*") if file.is_file() and "peers" in (file.name + file.read_text()).lower()]
    assert left == [], "words of the template are left"
    return folder


@pytest.mark.slow
def test_a_strangers_plugin_trains_on_mutag_by_name(tmp_path: pathlib.Path, data_root: pathlib.Path) -> None:
    site = unpacked(wheel(new_plugin("stranger", tmp_path), tmp_path / "build"), tmp_path / "site")
    (tmp_path / "mutag.toml").write_text(CONFIG.format(dataset="mutag", name="stranger"), encoding="utf-8")
    python("-m", "kdlgt", "train", tmp_path / "mutag.toml", "--run-dir", tmp_path / "run", path=site)
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert 0 <= next(iter(result["test"].values())) <= 1


def test_kdlgts_own_wheel_carries_the_template(tmp_path: pathlib.Path) -> None:
    """Built as it is published; `kdlgt new-plugin` works where there is no repository."""
    target = tmp_path / "dist"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        held = {name.removeprefix("kdlgt/cli/plugin_template/") for name in archive.namelist()}
        points = archive.read(next(name for name in archive.namelist() if name.endswith("entry_points.txt"))).decode()
    assert {"pyproject.toml", "README.md", "kdlgt_peers/__init__.py", "tests/test_peers.py"} <= held
    assert "peers" not in points, "the template is a distribution of its own"
