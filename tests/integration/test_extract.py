"""The command ``extract``, and several targets from one read, as users run them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

import dask_io
from dask_io.errors import BudgetTooSmallError, TargetExistsError, UsageError
from dask_io.jobs.job import JointJob
from tests.commands import fail, run

VALUES = np.arange(12 * 10 * 8, dtype="<i2").reshape(12, 10, 8)
REGIONS = ("0:6,2:7", "3:9,:,2:5", "5:7")
PARTS = (VALUES[0:6, 2:7], VALUES[3:9, :, 2:5], VALUES[5:7])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Six blocks of 4 x 5 x 8."""
    folder = tmp_path / "source"
    folder.mkdir()
    for i, j in np.ndindex(3, 2):
        np.save(folder / f"b_{i}_{j}_0.npy", VALUES[4 * i : 4 * i + 4, 5 * j : 5 * j + 5])
    return folder


def with_regions(*regions: str) -> list[str]:
    """The options for regions."""
    return [word for region in regions for word in ("--region", region)]


def result_of(found: object) -> dask_io.RunResult:
    """What a verb returned that ran at once."""
    assert isinstance(found, dask_io.RunResult)
    return found


def test_one_region_goes_to_the_target(source: Path, tmp_path: Path) -> None:
    """A single region becomes the file that is named."""
    run("extract", source, tmp_path / "one.npy", "--region", REGIONS[0], "--verify")

    assert np.array_equal(np.load(tmp_path / "one.npy"), PARTS[0])


def test_several_regions_become_files_of_a_folder(source: Path, tmp_path: Path) -> None:
    """Each is one file, in the order given; prediction and counts agree."""
    told = run("extract", source, tmp_path / "rois", *with_regions(*REGIONS), "--verify", "--json")

    names = [f"region_{n:03}.npy" for n in range(3)]
    found = {path.name for path in (tmp_path / "rois").iterdir()}
    assert found == {*names, *(f".{name}.dask-io" for name in names)}
    for name, part in zip(names, PARTS, strict=True):
        assert np.array_equal(np.load(tmp_path / "rois" / name), part)
    plan, result = json.loads(told)["plan"], json.loads(told)["result"]
    assert result["verified"] is True
    assert result["seeks"] == {key: plan["seeks"][key] for key in ("read", "write")}
    assert result["held"] == plan["memory"]["held"]
    assert plan["seeks"]["total"] == plan["seeks"]["lower_bound"]
    assert [target["window"][0] for target in plan["targets"]] == [[0, 6], [3, 9], [5, 7]]
    assert result["bytes"]["read"] < result["bytes"]["written"]


def test_all_regions_of_a_folder_are_verified(source: Path, tmp_path: Path) -> None:
    """A difference in one of them is found, and says in which."""
    run("extract", source, tmp_path / "rois", *with_regions(*REGIONS))
    told = run("resume", tmp_path / "rois").splitlines()
    assert [Path(line.partition(": ")[0]).name for line in told] == [
        f"region_{n:03}.npy" for n in range(3)
    ]
    found = dask_io.verify(tmp_path / "rois")
    assert (bool(found), found.n_elements) == (True, sum(part.size for part in PARTS))

    broken = tmp_path / "rois" / "region_001.npy"
    content = bytearray(broken.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    assert dask_io.verify(tmp_path / "rois").place == str(broken)


def test_regions_with_chunks_become_directories(source: Path, tmp_path: Path) -> None:
    """With chunks each region is a directory of blocks that describes itself."""
    options = [*with_regions(*REGIONS[:2]), "--chunks", "2,3,4", "--order", "F"]
    run("extract", source, tmp_path / "rois", *options)

    for number, part in enumerate(PARTS[:2]):
        found = dask_io.open(tmp_path / "rois" / f"region_{number:03}")
        assert np.array_equal(found[:], part)
        assert found.chunks[0] == (2, 2, 2)


def test_regions_of_a_file(source: Path, tmp_path: Path) -> None:
    """A file has one region a line, comments and empty lines apart; options come first."""
    listed = tmp_path / "rois.txt"
    listed.write_text("# two regions\n\n3:9,:,2:5  # with a comment\n5:7\n")
    options = ["--region", REGIONS[0], "--regions-file", listed]
    run("extract", source, tmp_path / "rois", *options)

    for number, part in enumerate(PARTS):
        assert np.array_equal(np.load(tmp_path / "rois" / f"region_{number:03}.npy"), part)


def test_a_dry_run_touches_nothing(source: Path, tmp_path: Path) -> None:
    """The plan is shown, as text or as JSON, and no target appears."""
    arguments = ["extract", source, tmp_path / "rois", *with_regions(*REGIONS), "--dry-run"]

    text, told = run(*arguments), json.loads(run(*arguments, "--json"))

    assert text.startswith("bundle plan for 3 targets")
    assert told["sweeps"][0]["targets"] == [0, 1, 2]
    assert told["bytes"]["read_again"] == 0
    assert not (tmp_path / "rois").exists()


def test_regions_as_indices(source: Path, tmp_path: Path) -> None:
    """In Python a region is an index as in NumPy; a single one may be called `region`."""
    given: list[Any] = [np.s_[0:6, 2:7], np.s_[3:9, ..., 2:5], np.s_[5:7]]
    dask_io.extract(source, tmp_path / "rois", regions=given)
    dask_io.extract(source, tmp_path / "one.npy", regions=given[1])
    dask_io.extract(source, tmp_path / "named.npy", region=given[1])

    for number, part in enumerate(PARTS):
        assert np.array_equal(np.load(tmp_path / "rois" / f"region_{number:03}.npy"), part)
    for name in ("one.npy", "named.npy"):
        assert np.array_equal(np.load(tmp_path / name), PARTS[1])


@pytest.mark.parametrize("regions", [REGIONS[:1], REGIONS], ids=["one", "several"])
def test_the_predicted_time_respects_the_rate(
    source: Path, tmp_path: Path, regions: tuple[str, ...]
) -> None:
    """A dry run and the first lines of a run predict the time that the rate allows."""
    arguments = ["extract", source, tmp_path / "rois", *with_regions(*regions)]
    plan = json.loads(run(*arguments, "--dry-run", "--json", "--max-rate", "1kB"))

    n_bytes = plan["bytes"]["read"] + plan["bytes"]["written"]
    assert n_bytes / 1000 <= plan["seconds"] < n_bytes / 1000 + 1
    seconds = json.loads(run(*arguments, "--dry-run", "--json"))["seconds"]
    assert seconds < 1


def test_the_predicted_time_of_a_group_respects_the_rate(tmp_path: Path) -> None:
    """The rate counts for all arrays together."""
    group = zarr.create_group(tmp_path / "year.zarr")
    for name in ("a", "b"):
        values: Any = {"data": np.arange(8000), "chunks": (1000,), "compressors": None}
        group.create_array(name, **values, dimension_names=["x"])
    arguments = ["extract", tmp_path / "year.zarr", tmp_path / "part.zarr", "--region", "x=0:4000"]

    plan = json.loads(run(*arguments, "--dry-run", "--json", "--max-rate", "1kB"))

    n_bytes = plan["bytes"]["read"] + plan["bytes"]["written"]
    assert n_bytes / 1000 <= plan["seconds"] < n_bytes / 1000 + 1


@pytest.mark.parametrize("codec", ["zstd", "none"])
@pytest.mark.parametrize("region", [None, "0:4000"], ids=["whole", "part"])
def test_the_predicted_time_counts_bytes_as_they_are_stored(
    tmp_path: Path, region: str | None, codec: str
) -> None:
    """A rate limits the bytes that are read and written, which codecs make fewer."""
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(8000), chunks=(1000,))
    share = dask_io.info(tmp_path / "a.zarr").n_bytes_on_disk / (8000 * 8)
    words = ["plan", tmp_path / "a.zarr", tmp_path / "b.zarr", "--chunks", "2000", "--codec", codec]

    if region:
        words += ["--region", region]
    plan = json.loads(run(*words, "--json", "--max-rate", "1kB"))

    written = share if codec == "zstd" else 1
    n_bytes = share * plan["bytes"]["read"] + written * plan["bytes"]["written"]
    assert share < 0.5
    assert plan["seconds"] == pytest.approx(n_bytes / 1000, abs=0.1)


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        (["0:13"], "0:13 of axis 0 is not within 0:12"),
        (["0:6", "0:13"], "is not within 0:12"),
        (["6:3"], "6:3 of axis 0 has its start after its stop"),
        (["3:3"], "empty"),
        (["0:6", ":,4:4"], "empty"),
        (["0:1,0:1,0:1,0:1"], "has 4 axes, but the array has 3"),
        (["0:6", "x"], "not a range"),
        ([], "at least one region"),
    ],
)
def test_a_wrong_region_is_usage(
    source: Path, tmp_path: Path, regions: list[str], said: str
) -> None:
    """Exit code 2, and nothing is written."""
    assert said in fail("extract", source, tmp_path / "out", *with_regions(*regions), code=2)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_the_environment(source: Path, tmp_path: Path) -> None:
    """Exit code 3 for a source or a file of regions that is not there."""
    absent = tmp_path / "absent"

    assert "absent" in fail("extract", absent, tmp_path / "out", "--region", "0:1", code=3)
    options = ["--regions-file", absent]
    assert "absent" in fail("extract", source, tmp_path / "out", *options, code=3)


def test_a_file_without_regions_is_usage(source: Path, tmp_path: Path) -> None:
    """Exit code 2 for a file of comments, and for one that is no text."""
    listed = tmp_path / "rois.txt"
    for content in (b"# none\n", b"\xff\xfe\xfa"):
        listed.write_bytes(content)
        fail("extract", source, tmp_path / "out", "--regions-file", listed, code=2)


def test_several_regions_need_a_folder(source: Path, tmp_path: Path) -> None:
    """A name with a format's suffix is one file, which cannot hold several."""
    said = fail("extract", source, tmp_path / "out.npy", *with_regions(*REGIONS), code=2)

    assert "give a directory" in said


def test_what_exists_is_replaced_only_if_asked(source: Path, tmp_path: Path) -> None:
    """Exit code 2 without ``--overwrite``, for the folder and for what is in it."""
    arguments = ["extract", source, tmp_path / "rois", *with_regions(*REGIONS)]
    run(*arguments)

    assert "exists" in fail(*arguments, code=2)
    run(*arguments, "--overwrite")


def test_a_target_in_the_source_is_refused(source: Path) -> None:
    """Exit code 2."""
    assert " lies in source " in fail(
        "extract", source, source / "rois", *with_regions(*REGIONS), code=2
    )


def test_a_budget_too_small_names_one_that_works(source: Path, tmp_path: Path) -> None:
    """With the budget named in the error the same call succeeds."""
    with pytest.raises(BudgetTooSmallError) as caught:
        dask_io.extract(source, tmp_path / "rois", regions=REGIONS, memory=1)

    memory = caught.value.required
    result = result_of(dask_io.extract(source, tmp_path / "rois", regions=REGIONS, memory=memory))

    assert result.n_bytes_written == sum(part.nbytes for part in PARTS)
    assert np.array_equal(np.load(tmp_path / "rois" / "region_001.npy"), PARTS[1])


def test_what_does_not_fit_together_is_read_again(tmp_path: Path) -> None:
    """Within little memory there are several sweeps, or flushed ends, and the plan says so."""
    np.save(tmp_path / "volume.npy", VALUES)
    regions = [":,:,0:4", ":,:,2:6"]
    for memory in range(16 * 1024 + 8, 16 * 1024 + 2000, 300):
        job = dask_io.plan_extract(
            tmp_path / "volume.npy",
            tmp_path / f"rois_{memory}",
            regions=regions,
            chunks=(5, 4, 3),
            memory=memory,
        )
        assert isinstance(job, JointJob)
        assert job.plan.fits
        assert "sweeps" in str(job)
        result = job.run()
        assert result.seeks == job.plan.seeks
        assert result.held == job.plan.held_bytes
        for number, part in enumerate((VALUES[..., 0:4], VALUES[..., 2:6])):
            found = dask_io.open(tmp_path / f"rois_{memory}" / f"region_{number:03}")
            assert np.array_equal(found[:], part)


def test_a_named_strategy_plans_each_region_alone(source: Path, tmp_path: Path) -> None:
    """Then what two regions share is read twice."""
    job = dask_io.plan_extract(source, tmp_path / "rois", regions=REGIONS, strategy="naive")

    assert isinstance(job, dask_io.JointJob)
    assert len(job.plan.bundles) == 3
    assert job.plan.n_bytes_read_again > 0
    assert "read more than once" in str(job)
    assert job.run(verify=True).n_bytes_read == job.plan.n_bytes_read


def test_regions_of_raw_blocks_describe_themselves(tmp_path: Path) -> None:
    """Raw regions become directories, because raw files do not say what they hold."""
    np.save(tmp_path / "volume.npy", VALUES)
    dask_io.extract(tmp_path / "volume.npy", tmp_path / "rois", regions=REGIONS, format="raw")

    assert np.array_equal(dask_io.open(tmp_path / "rois" / "region_002")[:], PARTS[2])


def check_layouts(folder: Path, values: NDArray[np.int16]) -> None:
    """Check two layouts of one array."""
    a, b = dask_io.open(folder / "a"), dask_io.open(folder / "b")
    assert np.array_equal(a[:], values)
    assert np.array_equal(b[:], values)
    assert a.chunks[0][0] == 3
    assert b.chunks[0] == (len(values),)
    assert (dask_io.info(folder / "a").order, dask_io.info(folder / "b").order) == ("F", "C")


@pytest.mark.parametrize("region", [None, "1:8,:,3:"])
def test_several_layouts_are_written_from_one_read(
    source: Path, tmp_path: Path, region: str | None
) -> None:
    """The source is read once, whatever the number of targets."""
    result = result_of(
        dask_io.resplit(
            source,
            [tmp_path / "a", tmp_path / "b"],
            chunks=[(3, -1, 4), (-1, 5, 8)],
            order=["F", None],
            region=region,
            verify=True,
        )
    )

    values = VALUES if region is None else VALUES[1:8, :, 3:]
    assert (result.n_bytes_read, result.n_bytes_written) == (values.nbytes, 2 * values.nbytes)
    check_layouts(tmp_path, values)


def test_layouts_that_do_not_match_are_refused(source: Path, tmp_path: Path) -> None:
    """The number of chunks and orders is that of the targets, and targets lie apart."""
    two = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(UsageError, match="2 targets"):
        dask_io.resplit(source, two, chunks=[3])
    with pytest.raises(UsageError, match="1 orders"):
        dask_io.resplit(source, two, chunks=[3, 4], order=["C"])
    with pytest.raises(UsageError, match="are the same, or one contains the other"):
        dask_io.resplit(source, [tmp_path / "a"] * 2, chunks=[3, 4])
    with pytest.raises(UsageError, match="one contains the other"):
        dask_io.resplit(source, [tmp_path / "a", tmp_path / "a" / "b"], chunks=[3, 4])
    with pytest.raises(UsageError, match="cannot both be given"):
        dask_io.extract(source, tmp_path / "a", regions=["0:1"], region="0:1")


def test_one_target_that_exists_stops_all(source: Path, tmp_path: Path) -> None:
    """Nothing is left of the others."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").touch()

    with pytest.raises(TargetExistsError):
        dask_io.resplit(source, [tmp_path / "a", tmp_path / "b"], chunks=[3, 4])

    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("verb", ["resplit", "merge"])
def test_a_region_of_other_verbs(source: Path, tmp_path: Path, verb: str) -> None:
    """Only the region is moved."""
    chunks = ["--chunks", "4"] if verb == "resplit" else []
    target = tmp_path / ("out" if verb == "resplit" else "out.npy")
    run(verb, source, target, "--region", REGIONS[1], *chunks, "--verify")

    assert np.array_equal(dask_io.open(target)[:], PARTS[1])


def test_a_plan_of_a_region(source: Path) -> None:
    """The plan is about the region alone; without data there is no region."""
    told = json.loads(run("plan", source, "--chunks", "4", "--region", REGIONS[1], "--json"))

    assert told["shape"] == [6, 10, 3]
    options = ["--shape", "9", "--dtype", "u1", "--from", "3", "--to", "2", "--region", "0:3"]
    assert "--region" in fail("plan", *options, code=2)


@pytest.mark.parametrize("n_regions", [1, 2])
def test_gaps_are_read_through_unless_a_strategy_is_named(
    source: Path, tmp_path: Path, n_regions: int
) -> None:
    """Where seeks take long `auto` saves them; counts agree with the plan, and the values."""
    found = []
    for strategy in ("auto", "keep"):
        options = ["--strategy", strategy, "--device", "hdd", "--json"]
        regions = with_regions("1:8,2:7,3:5", "2:8,1:9,0:2")[: 2 * n_regions]
        told = json.loads(run("extract", source, tmp_path / strategy, *regions, *options))
        plan, result = told["plan"], told["result"]
        assert result["seeks"] == {key: plan["seeks"][key] for key in ("read", "write")}
        assert result["bytes"]["read"] == plan["bytes"]["read"]
        written = [dask_io.open(path)[:] for path in sorted(tmp_path.glob(f"{strategy}/*.npy"))]
        written = written or [dask_io.open(tmp_path / strategy)[:]]
        assert np.array_equal(written[0], VALUES[1:8, 2:7, 3:5])
        found.append((plan["source"]["through"], result["seeks"]["read"]))

    (through, seeks), (none, more) = found
    assert none == 0 < through
    assert seeks < more


KILLED_AT_THE_SECOND = """
import os, sys, dask_io
from dask_io.journal.journalled_target import JournalledTarget

create, created = JournalledTarget.create, []

def create_one(self, job):
    if created:
        os._exit(9)
    created.append(self)
    create(self, job)

JournalledTarget.create = create_one
source, *targets = sys.argv[1:]
dask_io.resplit(source, targets, chunks=[4, 5])
"""


def test_targets_in_different_folders_are_resumed_by_the_first(
    source: Path, tmp_path: Path
) -> None:
    """It knows the way to the others, even if they have one name and all have been moved."""
    places = [tmp_path / "all" / name / "t" for name in "xy"]
    words = [sys.executable, "-c", KILLED_AT_THE_SECOND, *map(str, (source, *places))]
    assert subprocess.run(words, check=False, timeout=120).returncode == 9
    assert not places[1].exists()
    (tmp_path / "all").rename(tmp_path / "moved")
    first, second = (tmp_path / "moved" / name / "t" for name in "xy")
    dask_io.resume(first)

    for place in (first, second):
        assert np.array_equal(dask_io.open(place)[...], VALUES)


def test_one_region_may_be_given_without_a_list(source: Path, tmp_path: Path) -> None:
    """A text is one region, not a list of its characters."""
    dask_io.extract(source, tmp_path / "one.npy", regions=REGIONS[0])

    assert np.array_equal(np.load(tmp_path / "one.npy"), PARTS[0])
