"""As much of Google's and Azure's object stores as a run needs, on loopback and in memory."""

from __future__ import annotations

import base64
import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Cloud:
    """A bucket: objects with the number of their version; `denies` whatever is asked."""

    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    n_puts: int = 0
    denies: bool = False
    lock: Lock = field(default_factory=Lock)

    def put(self, key: str, content: bytes, *, expected: int | None) -> int | None:
        """Put an object if its version is the one expected, 0 being none; return the new one."""
        with self.lock:
            if expected is not None and self.objects.get(key, (b"", 0))[1] != expected:
                return None
            self.n_puts += 1
            self.objects[key] = content, self.n_puts
            return self.n_puts

    def list(self, prefix: str, delimiter: str) -> tuple[dict[str, int], list[str]]:
        """Return objects with their sizes, and what others' names go on from."""
        with self.lock:
            found = {key: len(each[0]) for key, each in sorted(self.objects.items())}
        found = {key: size for key, size in found.items() if key.startswith(prefix)}
        if not delimiter:
            return found, []
        ends = {key: key.find(delimiter, len(prefix)) for key in found}
        prefixes = sorted({key[: end + 1] for key, end in ends.items() if end >= 0})
        return {key: size for key, size in found.items() if ends[key] < 0}, prefixes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are sent at once: apart, the other side waits before it confirms the first.
    wbufsize = -1
    cloud: Cloud
    bucket: str

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        key = unquote(address.path).removeprefix(f"/{self.bucket}").lstrip("/")
        if self.cloud.denies:
            self.answer(403, b"<Code>AuthenticationFailed</Code>")
        elif self.command == "PUT":
            self.put(key, body)
        elif self.command == "DELETE":
            self.answer(204 if self.cloud.objects.pop(key, None) else 404)
        elif self.command == "POST":
            self.remove_many(body)
        elif key:
            self.get(key)
        else:
            names = self.cloud.list(asked.get("prefix", ""), asked.get("delimiter", ""))
            self.answer(200, self.listing(*names).encode())

    do_HEAD = do_PUT = do_DELETE = do_POST = do_GET  # noqa: N815 - as above

    def put(self, key: str, content: bytes) -> None:
        raise NotImplementedError

    def listing(self, found: dict[str, int], prefixes: list[str]) -> str:
        raise NotImplementedError

    def remove_many(self, body: bytes) -> None:
        """Only Azure has this."""
        raise NotImplementedError

    def get(self, key: str) -> None:
        if key not in self.cloud.objects:
            self.answer(404)
            return
        content, version = self.cloud.objects[key]
        total, headers = len(content), {}
        if said := self.headers.get("Range") or self.headers.get("x-ms-range"):
            first, _, last = said.removeprefix("bytes=").partition("-")
            low, high = int(first), min(int(last) + 1, total)
            content = content[low:high]
            headers["Content-Range"] = f"bytes {low}-{high - 1}/{total}"
        self.answer(206 if said else 200, content, version, headers)

    def answer(
        self,
        status: int,
        content: bytes = b"",
        version: int = 0,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response_only(status)
        told = {"ETag": f'"{version}"', "x-goog-generation": str(version), **(headers or {})}
        for name, value in {**told, "Last-Modified": formatdate(usegmt=True)}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Google(_Handler):
    def put(self, key: str, content: bytes) -> None:
        said = self.headers.get("x-goog-if-generation-match")
        version = self.cloud.put(key, content, expected=None if said is None else int(said))
        self.answer(200 if version else 412, version=version or 0)

    def listing(self, found: dict[str, int], prefixes: list[str]) -> str:
        listed = [
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>{self.tag(key)}</ETag>"
            "<LastModified>2026-11-16T00:00:00.000Z</LastModified></Contents>"
            for key, size in found.items()
        ]
        listed += [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in prefixes
        ]
        return f"<ListBucketResult>{''.join(listed)}</ListBucketResult>"

    def tag(self, key: str) -> str:
        return escape(f'"{self.cloud.objects[key][1]}"')


class _Azure(_Handler):
    def put(self, key: str, content: bytes) -> None:
        expected = None
        if self.headers.get("If-None-Match") == "*":
            expected = 0
        elif said := self.headers.get("If-Match"):
            expected = int(said.strip('"'))
        version = self.cloud.put(key, content, expected=expected)
        self.answer(201 if version else 409 if expected == 0 else 412, version=version or 0)

    def listing(self, found: dict[str, int], prefixes: list[str]) -> str:
        listed = [
            f"<Blob><Name>{escape(key)}</Name><Properties><Content-Length>{size}</Content-Length>"
            f"<Last-Modified>{formatdate(usegmt=True)}</Last-Modified>"
            f"<Etag>&quot;{self.cloud.objects[key][1]}&quot;</Etag>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for key, size in found.items()
        ]
        listed += [f"<BlobPrefix><Name>{escape(each)}</Name></BlobPrefix>" for each in prefixes]
        inside = f"<Blobs>{''.join(listed)}</Blobs><NextMarker />"
        return f"<EnumerationResults>{inside}</EnumerationResults>"

    def remove_many(self, body: bytes) -> None:
        parts = []
        for number, address in enumerate(re.findall(rb"\r\nDELETE (\S+) HTTP/1.1", body)):
            key = unquote(urlsplit(address.decode()).path).removeprefix(f"/{self.bucket}/")
            status = "202 Accepted" if self.cloud.objects.pop(key, None) else "404 Not Found"
            head = f"Content-Type: application/http\r\nContent-ID: {number}"
            parts.append(f"--batch\r\n{head}\r\n\r\nHTTP/1.1 {status}\r\n\r\n")
        headers = {"Content-Type": "multipart/mixed; boundary=batch"}
        self.answer(202, "".join([*parts, "--batch--\r\n"]).encode(), headers=headers)


def _serve(handler: type[_Handler], stack: ExitStack) -> tuple[Cloud, int]:
    made = type("Handler", (handler,), {"cloud": (cloud := Cloud()), "bucket": "bucket"})
    listener = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), made))
    listener.daemon_threads = True
    Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
    stack.callback(listener.shutdown)
    return cloud, listener.server_address[1]


def _leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the environment says of real clouds."""
    for name in ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A bucket at Google's, which the environment leads to."""
    with ExitStack() as stack:
        cloud, port = _serve(_Google, stack)
        key = {"gcs_base_url": f"http://127.0.0.1:{port}", "disable_oauth": True}
        key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        _leave_out(monkeypatch)
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
        monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
        yield cloud


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A container at Azure's, which the environment leads to."""
    with ExitStack() as stack:
        cloud, port = _serve(_Azure, stack)
        _leave_out(monkeypatch)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"hidden").decode())
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        yield cloud
