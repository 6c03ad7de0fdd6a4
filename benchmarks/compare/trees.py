"""The two trees: the sources as they are now, and those of an earlier commit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.engine.measuring import FailedError

ROOT = Path(__file__).parents[2]


def find_base() -> str:
    """Return the commit to compare with, of those that exist and are not the current one.

    This is where the branch left `main`, the newest tag before the current commit, or its parent.
    """
    for command in (("merge-base", "HEAD", "main"), ("describe", "--tags", "--abbrev=0", "HEAD~1")):
        try:
            found = _commit(_git(*command))
        except FailedError:
            continue
        if found != _commit("HEAD"):
            return found
    return _commit("HEAD~1")


def take_current(tree: Path) -> str:
    """Copy the sources, so that they can be changed meanwhile, and return what they are."""
    _take_folder(ROOT, tree)
    try:
        return f"{_describe('HEAD')}{', changed' if _git('status', '--porcelain', 'src') else ''}"
    except FailedError:
        return str(ROOT)


def take_base(base: str | None, tree: Path) -> str:
    """Copy the sources of a commit, or those in a folder, and return what they are.

    The commit is unpacked rather than checked out as a worktree, so that the repository does not
    change, and nothing is left in it even if this process is killed.
    """
    if base is not None and Path(base, "src").is_dir():
        _take_folder(Path(base), tree)
        return base
    commit = find_base() if base is None else _commit(base)
    tree.mkdir()
    packed = tree / "src.zip"
    _git("archive", "--output", str(packed.resolve()), commit, "src")
    shutil.unpack_archive(packed, tree)
    packed.unlink()
    _compile(tree)
    return _describe(commit)


def _take_folder(folder: Path, tree: Path) -> None:
    shutil.copytree(folder / "src", tree / "src")
    _compile(tree)


def _compile(tree: Path) -> None:
    """Compile the sources, so that no run has to."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree)], check=True)


def _commit(name: str) -> str:
    return _git("rev-parse", "--verify", f"{name}^{{commit}}")


def _describe(commit: str) -> str:
    return _git("log", "-1", "--format=%h %s", commit)


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise FailedError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
