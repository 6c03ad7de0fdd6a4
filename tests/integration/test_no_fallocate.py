"""Filesystems that cannot reserve space, as ``strace`` plays them, hold targets all the same."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.linux,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

RUN = """
import json, sys
import dask_io

dask_io.resplit(sys.argv[1], sys.argv[2], verify=True, **json.loads(sys.argv[3]))
"""


@pytest.mark.parametrize("code", ["EOPNOTSUPP", "ENOSYS"])
@pytest.mark.parametrize("options", [{"format": "npy"}, {"format": "raw"}, {"strategy": "spill"}])
def test_targets_without_reserved_space(
    quick_path: Path, options: dict[str, Any], code: str
) -> None:
    """The C library does not write to every page instead: blocks are written once."""
    np.save(quick_path / "source.npy", np.arange(40_000, dtype="<i4").reshape(200, 200))
    log = quick_path / "log"
    inject = ["-e", "trace=fallocate,pwrite64", "-e", f"inject=fallocate:error={code}"]
    strace = ["strace", "-f", "-o", str(log), *inject]
    places = [str(quick_path / "source.npy"), str(quick_path / "target")]
    options = {"chunks": [100, 200], "memory": "1MB", "workers": 2, **options}
    command = [*strace, sys.executable, "-c", RUN, *places, json.dumps(options)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    calls = log.read_text(encoding="utf-8")
    assert f"{code} " in calls
    assert not re.search(r"pwrite64\([^\n]*, 1, \d+\)", calls)
