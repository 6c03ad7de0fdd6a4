"""Every error travels between processes and says what is wrong in one line."""

import pickle

import pytest

from dask_io import errors
from dask_io.errors import (
    BudgetTooSmallError,
    DaskIOError,
    DataError,
    InterruptedRunError,
    LockedError,
    MissingLibraryError,
    SamePlaceError,
    StorageError,
    TargetExistsError,
    UsageError,
)

EXAMPLES: list[tuple[DaskIOError, int]] = [
    (DataError("in", ["a is missing", "b is short"], "copy them again"), 1),
    (UsageError("there is no such option"), 2),
    (BudgetTooSmallError(2**30, 2**20, "source block"), 2),
    (MissingLibraryError("format zarr needs zarr"), 2),
    (TargetExistsError("out"), 2),
    (SamePlaceError("in", "in/out"), 2),
    (StorageError("out", "no space left", "free some"), 3),
    (LockedError("out", "another run is writing it", "wait for it"), 3),
    (InterruptedRunError("out"), 4),
]


def all_errors() -> set[type[DaskIOError]]:
    """Every error class of the module but the root."""
    return {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, DaskIOError) and value is not DaskIOError
    }


def test_every_error_has_an_example() -> None:
    """No error is left out below."""
    assert {type(error) for error, _ in EXAMPLES} == all_errors()


@pytest.mark.parametrize(("error", "exit_code"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_errors_travel_and_are_one_line(error: DaskIOError, exit_code: int) -> None:
    """An error survives pickling with its facts, prints as one line and has its exit code."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled in the line itself
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert str(error)
    assert "\n" not in str(error)
    assert error.exit_code == exit_code


def test_a_budget_too_small_names_the_one_needed() -> None:
    """The message has the number to give instead, rounded up."""
    message = str(BudgetTooSmallError(3 * 2**30 + 1, 2**30, "source block"))
    assert "3.00 GiB" in message
    assert message.endswith("--memory 3.01GiB")


def test_a_budget_for_one_element_is_not_recommended() -> None:
    """It is enough, but every element would be moved alone, which the message does not hide."""
    message = str(BudgetTooSmallError(4096, 1, "element with its staging"))
    assert message.endswith("--memory 4KiB, preferably a few MiB more")


def test_control_characters_in_messages_are_escaped() -> None:
    """A name from a file that anyone may have made cannot manipulate a terminal."""
    name = "b_\x1b[2J\n.npy"
    for error in (DataError(name, [name], name), StorageError(name, name), UsageError(name)):
        assert str(error).isprintable()
    assert str(errors.RoomWarning(name)) == r"b_\x1b[2J\n.npy"


def test_data_errors_name_every_problem() -> None:
    """All problems are in the message, not only the first."""
    message = str(DataError("in", ["a is missing", "b is short"]))
    assert message == "in: a is missing; b is short"


def test_advice_is_optional() -> None:
    """Without advice nothing trails."""
    assert str(StorageError("out", "no space left")) == "out: no space left"
