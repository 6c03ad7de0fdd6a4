"""What kind of device a folder lies on, by the system's tables and by measuring."""

import os
from pathlib import Path

import pytest

from dask_io.cli import options
from dask_io.engine import measure
from dask_io.engine.measure import are_apart, device_of, find_device, measure_device
from dask_io.errors import StorageError, UsageError
from dask_io.planning import DEVICES


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system with a few disks and no mounts."""
    root = tmp_path / "system"
    disks = root / "sys" / "devices"
    names = root / "sys" / "class" / "block"
    names.mkdir(parents=True)
    for disk, part, flag in [
        ("sda", "sda1", "1"),
        ("sdb", "sdb1", "0"),
        ("nvme0n1", "nvme0n1p1", "0"),
        ("dm-0", "", "1"),
        ("vda", "vda1", "1"),
    ]:
        (disks / disk / "queue").mkdir(parents=True)
        (disks / disk / "queue" / "rotational").write_text(f"{flag}\n")
        (disks / disk / part).mkdir(exist_ok=True)
        for name, at in ((disk, disks / disk), (part, disks / disk / part)):
            if name:
                (names / name).symlink_to(at)
    mapped = root / "dev" / "mapper"
    mapped.mkdir(parents=True)
    (root / "dev" / "dm-0").touch()
    (mapped / "volume").symlink_to("../dm-0")
    (root / "proc").mkdir()
    return root


def mount(system: Path, *lines: tuple[str, Path | str, str]) -> None:
    """Write the table of mounts."""
    rows = [f"{device} {folder} {kind} rw,relatime 0 0" for device, folder, kind in lines]
    (system / "proc" / "mounts").write_text("\n".join(rows))


@pytest.mark.parametrize(
    ("device", "kind", "name"),
    [
        ("/dev/sda1", "ext4", "hdd"),
        ("/dev/sda", "xfs", "hdd"),
        ("/dev/sdb1", "ext4", "ssd"),
        ("/dev/nvme0n1p1", "ext4", "nvme"),
        ("/dev/mapper/volume", "btrfs", "hdd"),
        ("/dev/vda1", "ext4", "ssd"),
        ("/dev/unheard-of", "ext4", "ssd"),
        ("overlay", "overlay", "ssd"),
        ("server:/export", "nfs4", "nfs"),
        ("//server/share", "cifs", "nfs"),
        ("s3fs", "fuse.s3fs", "s3"),
        ("tmpfs", "tmpfs", "nvme"),
    ],
)
def test_the_kind_of_filesystem_names_the_device(
    system: Path, tmp_path: Path, device: str, kind: str, name: str
) -> None:
    """Networks, object stores, memory and disks are told apart; what is unknown is an SSD."""
    mount(system, ("/dev/sda1", "/", "ext4"), (device, tmp_path, kind))
    assert device_of(tmp_path / "not" / "there" / "yet", system=system) is DEVICES[name]


def test_the_deepest_mount_counts(system: Path, tmp_path: Path) -> None:
    """A mount within another one hides it, a neighbour of a similar name does not."""
    inner = tmp_path / "a b"
    inner.mkdir()
    mount(
        system,
        ("server:/export", str(inner).replace(" ", r"\040"), "nfs"),
        ("/dev/sda1", tmp_path, "ext4"),
        ("tmpfs", tmp_path / "a", "tmpfs"),
    )
    assert device_of(inner, system=system).name == "nfs"
    assert device_of(tmp_path, system=system).name == "hdd"


def test_a_system_without_tables_has_an_ssd(tmp_path: Path) -> None:
    """Where there is nothing to read, nothing fails."""
    assert device_of(tmp_path, system=tmp_path).name == "ssd"


def test_a_table_of_nonsense_is_no_error(system: Path, tmp_path: Path) -> None:
    """Lines that are too short are no trouble."""
    (system / "proc" / "mounts").write_text("what\n")
    assert device_of(tmp_path, system=system).name == "ssd"


def test_this_machine_has_a_device(tmp_path: Path) -> None:
    """Whatever the tests run on, it is one of the presets."""
    assert device_of(tmp_path) in DEVICES.values()


def test_measuring_leaves_nothing_behind(tmp_path: Path) -> None:
    """What is measured makes sense as a device, and the file is gone."""
    device = measure_device(tmp_path)
    assert device.name == "measured"
    assert min(device.read_bandwidth, device.write_bandwidth) > 0
    assert device.concurrency == device_of(tmp_path).concurrency
    assert list(tmp_path.iterdir()) == []


def test_measuring_writes_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than 64 MiB is written, however fast the device is."""
    written = []

    def write(fd: int, offset: int, buffer: memoryview) -> None:
        written.append(os.pwrite(fd, buffer, offset))

    monkeypatch.setattr(measure, "write_fully", write)
    measure_device(tmp_path)
    assert 0 < sum(written) <= 64 * 2**20


def test_a_folder_that_is_not_there_yet_is_measured_above(tmp_path: Path) -> None:
    """A target need not exist to be measured, and is not made."""
    measure_device(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusal becomes ours."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(StorageError, match="Permission denied; check its permissions"):
        measure_device(tmp_path)


def test_nothing_is_measured_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a device is found without a byte being written."""
    monkeypatch.setattr(measure, "measure_device", pytest.fail)
    assert find_device(None, tmp_path) in DEVICES.values()
    assert find_device(None) is DEVICES["ssd"]
    assert find_device("hdd", tmp_path) is DEVICES["hdd"]


def test_the_slower_of_two_places_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast target does not make a slow source faster."""
    monkeypatch.setattr(measure, "device_of", lambda place: DEVICES[str(place)])
    assert find_device(None, "hdd", "nvme").name == find_device(None, "nvme", "hdd").name == "hdd"


def test_the_last_place_is_measured_when_asked(tmp_path: Path) -> None:
    """Measured means the target's folder."""
    assert find_device("measured", "/nowhere", tmp_path).name == "measured"


def test_two_filesystems_are_apart(tmp_path: Path) -> None:
    """As an object store is from all else; of what is not there yet, its folder counts."""
    here = str(tmp_path)
    assert not are_apart(here, str(tmp_path / "new" / "x.npy"))
    assert not are_apart(f"{here}/a.h5::/x", here)
    assert are_apart(here, "/proc/self")
    assert are_apart("s3://bucket/x.zarr", here)
    assert are_apart(here, "s3://bucket/x.zarr")


def test_wrong_devices_are_refused() -> None:
    """An unknown name, or nothing to measure, is an error of use."""
    with pytest.raises(UsageError, match="choose one of hdd, ssd, nvme, nfs, s3, measured"):
        find_device("floppy")
    with pytest.raises(UsageError, match="needs a folder to measure"):
        find_device("measured")


def test_the_command_line_knows_every_device() -> None:
    """The option lists the presets without loading them, and forgets none."""

    @options.device
    def command() -> None:
        """Nothing."""

    (option,) = command.__click_params__  # type: ignore[attr-defined]
    assert list(option.type.choices) == [*DEVICES, "measured"]
