"""Public functions raise errors that suit a Python program, and list all of their options."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import shlex
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import (
    BudgetTooSmallError,
    DaskIOError,
    DataError,
    InterruptedRunError,
    LockedError,
    MissingLibraryError,
    StorageError,
    TargetExistsError,
    UsageError,
)
from dask_io.jobs.settings import Options
from dask_io.python_errors import for_command_line, for_python, in_python_words

VERBS = ["resplit", "split", "merge", "extract", "plan", "plan_extract", "plan_parts", "plan_shape"]
ERRORS = [
    (DataError("scan", ["b_0.npy is missing"]), ValueError),
    (UsageError("no such option"), ValueError),
    (BudgetTooSmallError(100, 10, "source block"), ValueError),
    (MissingLibraryError("zarr is not installed"), ImportError),
    (TargetExistsError("out"), FileExistsError),
    (StorageError("scan", "no such file or directory"), FileNotFoundError),
    (StorageError("scan", "permission denied", "check its permissions"), PermissionError),
    (LockedError("out", "another run is writing it", "wait"), OSError),
    (InterruptedRunError("out"), DaskIOError),
]


@pytest.mark.parametrize("given", [{"chunk": 64}, {"chunk": 64, "chunks": 64}], ids=str)
def test_an_unknown_option_is_reported_first(given: dict[str, Any]) -> None:
    """Before what is missing because of it, and with the right name."""
    with pytest.raises(TypeError, match="unknown option chunk; did you mean chunks"):
        dask_io.split("brain.nii.gz", "out", **given)


@pytest.mark.parametrize(
    ("word", "meant"), [("force", "overwrite"), ("compression", "codec"), ("threads", "workers")]
)
def test_words_of_other_programs_are_understood(word: str, meant: str) -> None:
    """As on the command line; the nearest spelling of force would be source."""
    given: dict[str, Any] = {"chunks": 1, word: True}
    with pytest.raises(TypeError, match=f"unknown option {word}; did you mean {meant}\\?"):
        dask_io.split("brain.nii.gz", "out", **given)


def test_options_of_run_are_checked_like_those_of_verbs(tmp_path: Path) -> None:
    """Also `plan` knows where they belong."""
    np.save(tmp_path / "a.npy", np.zeros(3))
    plan: Any = dask_io.plan
    job = plan(tmp_path / "a.npy", tmp_path / "out", chunks=2)
    unknown: dict[str, Any] = {"verfy": True}
    with pytest.raises(TypeError, match="unknown option verfy; did you mean verify\\?"):
        job.run(**unknown)
    for word in ("progress", "progess"):
        with pytest.raises(TypeError, match=f"unknown option {word}; .* are options of run()"):
            plan(tmp_path / "a.npy", tmp_path / "out", chunks=2, **{word: True})
    assert job.run(verify=True).verified


def test_a_missing_path_suggests_a_similar_one(tmp_path: Path) -> None:
    """As the command line does."""
    np.save(tmp_path / "brain.npy", np.zeros(3))

    with pytest.raises(StorageError, match=r"check the path; did you mean .*/brain\.npy\?"):
        dask_io.open(tmp_path / "brian.npy")


@pytest.mark.parametrize(("error", "builtin"), ERRORS, ids=lambda each: str(each)[:20])
def test_errors_are_also_of_a_builtin_kind(error: DaskIOError, builtin: type[Exception]) -> None:
    """An error keeps its class and arguments, is of a built-in kind too, and can be pickled."""
    made = for_python(error)
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - made here

    for each in (made, again):
        assert isinstance(each, type(error))
        assert isinstance(each, builtin)
        assert each.args == error.args
        assert each.exit_code == error.exit_code
        assert str(each) == in_python_words(str(error))
    assert for_python(made) is made
    assert for_command_line(made) is error
    assert for_command_line(error) is error


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("replace it with --overwrite", "replace it with overwrite=True"),
        ("use at least --memory 3000, preferably", "use at least memory=3000, preferably"),
        ("use --memory 4GiB.", 'use memory="4GiB".'),
        ("--memory is too small", "memory=... is too small"),
        ("give --strategy sweep or --shards", 'give strategy="sweep" or shards=...'),
        ("with --chunks time=24,y=-1;", 'with chunks="time=24,y=-1";'),
        ("describe it: --source-shape", "describe it: shape=..."),
        ("dask-io resume 'a b' --consume", 'dask_io.resume("a b", consume=True)'),
        ("dask-io repair out SRC", 'dask_io.repair("out", "SRC")'),
        ("with dask-io resume out, or", 'with dask_io.resume("out"), or'),
        ("with dask-io resume and its target", "with dask_io.resume and its target"),
        ("a -- b and x--y", "a -- b and x--y"),
        ("""dask-io resume 'it'"'"'s', or""", 'dask_io.resume("it\'s"), or'),
        ("""dask-io resume 'a"b', or""", r"""dask_io.resume("a\"b"), or"""),
        ("dask-io resume a\\", "dask-io resume a\\"),
    ],
)
def test_messages_name_keywords_and_calls(message: str, expected: str) -> None:
    """Options and commands in a message become what a Python program would write."""
    assert in_python_words(message) == expected


@pytest.mark.parametrize("name", ["it's", "a b", 'a"b', "a,b", "a\\b", "(1)"])
def test_advice_quotes_any_path(name: str) -> None:
    """The shell and Python take it as one path."""
    error = TargetExistsError(name, unfinished=True)
    command = re.search("with (dask-io resume .*), or", str(error))
    call = re.search(r"with dask_io\.resume\((.*)\), or", str(for_python(error)))

    assert command is not None
    assert call is not None
    assert shlex.split(command[1]) == ["dask-io", "resume", name]
    assert ast.literal_eval(call[1]) == name


def test_no_frames_inside_dask_io(tmp_path: Path) -> None:
    """A traceback ends in one line of ours, and errors name Python's options."""
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(FileExistsError, match="overwrite=True") as caught:
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b.npy", chunks=3)

    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(each.filename).name for each in frames] == ["test_surface.py", "python_errors.py"]
    assert caught.value.__cause__ is None


def test_methods_of_jobs_raise_the_same_errors(tmp_path: Path) -> None:
    """What is planned first and run later also fails in the words of Python."""
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    plan: dict[str, Any] = {"chunks": 2, "memory": "1MiB"}
    job = dask_io.plan(tmp_path / "a.npy", tmp_path / "b", **plan)
    parted = dask_io.plan_parts(tmp_path / "a.npy", tmp_path / "b", parts=2, **plan)

    def stop(_: dask_io.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r'dask_io\.resume\("\S+/b"\)$') as caught:
        job.run(progress=stop)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(each.filename).name for each in frames] == ["test_surface.py", "python_errors.py"]
    with pytest.raises(FileExistsError, match=r"dask_io\.resume\(.*overwrite=True"):
        parted.begin()
    with pytest.raises(FileNotFoundError):
        dask_io.plan_parts(tmp_path / "a.npy", tmp_path / "c", parts=2, **plan).finish()
    with pytest.raises(ValueError, match=r"end in \.html"):
        job.visualize().save(tmp_path / "report.txt")


@pytest.mark.parametrize("name", VERBS)
def test_all_options_are_documented(name: str) -> None:
    """The help and the signature of a function list every option."""
    function = getattr(dask_io, name)
    text = inspect.getdoc(function) or ""

    parameters = inspect.signature(function).parameters
    assert set(Options.__annotations__) <= set(parameters)
    for parameter in parameters:
        assert re.search(rf"^(\w+, )*{parameter}(, \w+)*\n    ", text, re.MULTILINE), parameter
    assert "`Options`" not in text


def test_functions_can_be_pickled() -> None:
    """A public function is found again by its name, as tasks on workers need it."""
    assert pickle.loads(pickle.dumps(dask_io.resplit)) is dask_io.resplit  # noqa: S301 - made here


def test_completion_offers_public_names_only() -> None:
    """`dask_io.` and Tab lists what a user may use, and nothing else."""
    assert dir(dask_io) == sorted(dask_io.__all__)
