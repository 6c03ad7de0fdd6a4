"""The files about the project say the same as its code."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

import dask_io

ROOT = Path(__file__).parents[2]
# The names that packages have on conda-forge, if they differ.
CONDA_NAMES = {
    "backports-zstd": "backports.zstd",
    "dask": "dask-core",
    "isal": "python-isal",
    "xxhash": "python-xxhash",
}
# Dask IO does without it, and it is only on the Python package index.
NOT_ON_CONDA = {"deflate"}


def load(path: str) -> Any:
    """Return the content of a YAML file of the project."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def versions(requirements: list[str]) -> dict[str, str]:
    """Return the versions that are required of each package, by its name on conda-forge."""
    found = map(Requirement, requirements)
    return {CONDA_NAMES.get(each.name, each.name): str(each.specifier) for each in found}


def test_all_files_have_the_same_version() -> None:
    """A release is told by the same number everywhere."""
    told = load("CITATION.cff")["version"], load("conda/recipe.yaml")["context"]["version"]

    assert told == (dask_io.__version__,) * 2


def test_the_conda_recipe_requires_what_the_wheel_requires() -> None:
    """Dependencies are equal, and those of extras are constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel, needs = project["project"], load("conda/recipe.yaml")["requirements"]
    python = f"python{wheel['requires-python']}"
    extras = [
        each
        for extra in wheel["optional-dependencies"].values()
        for each in extra
        if Requirement(each).name not in {"dask-io", *NOT_ON_CONDA}
    ]

    assert versions(needs["run"]) == versions([python, *wheel["dependencies"]])
    assert versions(needs["run_constraints"]) == versions(extras)
    assert versions(needs["host"]) == versions(
        [python, "pip", *project["build-system"]["requires"]]
    )


def test_the_next_entry_of_the_changelog_can_be_made() -> None:
    """The fragments become an entry for this version, which the changelog does not have yet."""
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    heading = f"## {dask_io.__version__} ("
    assert heading in done.stdout
    if len(list((ROOT / "changes").glob("*.md"))) > 1:
        assert heading not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
