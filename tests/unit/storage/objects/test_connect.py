"""URLs are read carefully, and what is secret in them is not repeated."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.errors import StorageError, UsageError
from dask_io.storage.location import is_taken, is_url, locate
from dask_io.storage.objects.connect import parse_url
from dask_io.storage.objects.failures import to_storage_error

PARTS = st.lists(
    st.text("abcXYZ019._-{}: ", min_size=1, max_size=6).filter(lambda part: part.strip(". ")),
    max_size=4,
)


@given(parts=PARTS)
def test_urls_survive(parts: list[str]) -> None:
    """Whatever a URL names, its path names too, and so do its parents and neighbours."""
    url = "/".join(["s3://bucket", *parts])
    path = parse_url(url)
    assert str(path) == url
    assert parse_url(str(path)) == path
    assert path.key == "/".join(parts)
    assert len(path.parents) == len(parts)
    like = Path("/", *parts)
    if parts:
        assert (path.name, path.suffix) == (like.name, like.suffix)
        assert path.parent / path.name == path
        assert path.with_name("x") == path.parent / "x"
        assert path.parents == tuple(parse_url(f"s3://bucket{parent}") for parent in like.parents)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://user:hidden@bucket/x.zarr", "s3://bucket/x.zarr contains a password"),
        ("https://user:hid/den@host/x.zarr", "https://host/x.zarr contains a password"),
        ("https://host/x.npy?X-Amz-Signature=hidden", "https://host/x.npy contains a password"),
        ("https://host/x.npy#hidden", "https://host/x.npy contains a password"),
        ("ftp://host/x.npy", "has an unknown scheme"),
        ("s3:///x.npy", "has no bucket"),
        ("s3://bucket/../x", "which is not valid in an object name"),
        ("s3://bucket/a/./x", "which is not valid in an object name"),
        ("s3://bucket/a\x1b[2J", r"a\x1b[2J"),
    ],
)
def test_some_urls_are_refused(url: str, said: str) -> None:
    """Those with what is secret, without repeating it, and those that lead elsewhere."""
    with pytest.raises(UsageError) as caught:
        locate(url)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match=r"pip install 'dask-io\[objects\]'"):
        locate("s3://bucket/x")


def test_a_file_has_a_url_too(tmp_path: Path) -> None:
    """It is a local path."""
    assert locate(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert not is_url(f"file://{tmp_path}")


def test_options_are_not_shown() -> None:
    """Neither by a path nor by an error about them."""
    options = {"access_key_id": "hidden1", "secret_access_key": "hidden2", "allow_http": True}
    path = parse_url("s3://bucket/x", options)
    assert "hidden" not in repr(path)
    assert path.store is not None
    again = pickle.loads(pickle.dumps(path))  # noqa: S301 - our own
    assert again == path
    assert again.store is not None
    with pytest.raises(UsageError, match="no_such_option") as caught:
        _ = parse_url("s3://bucket", {"no_such_option": "hidden"}).store
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("place", ["s3://bucket/x", "s3://bucket/x.icechunk::/a"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ENDPOINT_URL", "127.0.0.1:9000"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:99999"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9/ "),
        ("AWS_ENDPOINT_URL", "http://"),
        ("AWS_ENDPOINT_URL", "http://h\u00f6st:9"),
        ("AWS_ACCESS_KEY_ID", "secret\n"),
        ("AWS_SESSION_TOKEN", "sec\nret"),
        ("endpoint", "no url"),
        ("secret_access_key", "secret\r"),
    ],
)
def test_settings_that_cannot_be_sent_are_named(
    place: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a library fails on them, and without what they hold."""
    options = {} if name.isupper() else {name: value}
    if name.isupper():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"^{name} (is not a URL|contains a line)") as caught:
        dask_io.open(place, storage_options=options)
    assert "secret" not in str(caught.value).replace(name, "")


def test_other_settings_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names look alike, or they are texts of several lines."""
    for name, value in (
        ("AWS_USE_FIPS_ENDPOINT", "false"),
        ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv4"),
        ("AZURE_CLIENT_CERTIFICATE", "one\ntwo"),
    ):
        monkeypatch.setenv(name, value)
    for url, options in (
        ("s3://bucket/x", {"endpoint": "http://127.0.0.1:1", "region": "r"}),
        ("az://bucket/x", {"account_name": "me", "use_fabric_endpoint": "false"}),
        ("https://host/x", {}),
    ):
        parse_url(url, options).connection.check_settings()


def test_what_cannot_be_reached_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names the URL."""
    retries = {"max_retries": 0}
    options = {"endpoint": "http://127.0.0.1:1", "allow_http": True, "retry_config": retries}
    with pytest.raises(StorageError, match="s3://bucket/x: the store cannot be reached; check"):
        is_taken(locate("s3://bucket/x", options | {"skip_signature": True}))
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    del options["allow_http"]
    with pytest.raises(StorageError, match="is not https; allow it with AWS_ALLOW_HTTP=true"):
        is_taken(locate("s3://bucket/x", options | {"skip_signature": True}))


@given(text=st.text())
def test_only_known_words_are_passed_on(text: str) -> None:
    """Of what obstore says, whatever it is, nothing but a status and a code can come out."""
    from obstore.exceptions import GenericError  # noqa: PLC0415

    said = f"Error performing GET http://h/?sig=hidden1 - status code: 403 Forbidden: {text}hidden2"
    error = to_storage_error(parse_url("s3://bucket/x"), GenericError(said))
    assert "hidden" not in str(error)
    assert "\n" not in str(error)
    assert "403 Forbidden" in str(error)
