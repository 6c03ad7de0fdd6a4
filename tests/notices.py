"""What a run says on stderr before it begins or after it ends, which is no error."""

NOTICES = (
    "dask-io: file names are taken as ",
    "dask-io: axes are taken as ",
    "dask-io: each block is ",
    "dask-io: data passes through scratch files ",
    "dask-io: runs in ",
    "dask-io: report: ",
    "dask-io: copies ",
    "dask-io: the Zarr specification does not have ",
    "dask-io: continues a run: ",
    "dask-io: starts again: ",
    "dask-io: takes ",
    "dask-io: each of ",
    "dask-io: each part takes ",
    "dask-io: writes part ",
    "dask-io: in the region, ",
    "dask-io: other programs show the image ",
    "dask-io: the axis named ",
    *(f"dask-io: spacing {axis}: " for axis in "tzyxijk"),
    "dask-io: spacing axis ",
    "dask-io: the step along ",
    "dask-io: the steps along ",
)


def without_notices(stderr: str) -> str:
    """Return the rest of what a command said, after the notices at its beginning."""
    lines = stderr.splitlines(keepends=True)
    while lines and lines[0].startswith(NOTICES):
        del lines[0]
    return "".join(lines)
