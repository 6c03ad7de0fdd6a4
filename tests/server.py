"""A real server of objects on loopback, and a proxy before it that lets things go wrong."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import from_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCESS_KEY, SECRET_KEY = "AKIADASKIOTESTS", "SecretThatNobodyMayEverSee"
_MOST_SECONDS = 60
# Below the ports of outgoing connections, which could take them before the server does.
_PORTS = range(15_000, 32_000)
_REFUSALS = {
    "throttle": (503, "SlowDown"),
    "error": (500, "InternalError"),
    "deny": (403, "AccessDenied"),
    "absent": (404, "NoSuchBucket"),
    "odd": (404, "NoSuchThing"),
}
# It ends when nobody holds the pipe open any more: with the last of the tests, however they end.
_UNTIL_PIPE_ENDS = '(exec 3< "$1"; shift; "$@" 3<&- & cat <&3 > /dev/null; kill -9 $!) &'


@dataclass(frozen=True)
class Server:
    """Where it listens, and a bucket there."""

    port: int
    bucket: str = "bucket"

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return what reaches it, or what stands before it."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
        }

    def reach(self, monkeypatch: pytest.MonkeyPatch, port: int | None = None) -> None:
        """Have it reached, or what stands before it."""
        for name, value in self.environment(port).items():
            monkeypatch.setenv(name, value)


def find_tool() -> str | None:
    """Return the program of SeaweedFS, which comes with the tests' requirements."""
    return shutil.which("weed") or shutil.which("weed", path=str(Path(sys.executable).parent))


def join(folder: Path, stack: ExitStack) -> Server:
    """Return the server in a folder, which all processes of the tests share; start it if needed."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):
            held = os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK)
            stack.callback(os.close, held)
            return Server(int((folder / "port").read_text()))
        return start(folder, stack)


def start(folder: Path, stack: ExitStack) -> Server:
    """Start a server that keeps its data and its log in a folder, and wait until it answers."""
    tool = find_tool()
    if tool is None:
        pytest.skip("needs SeaweedFS, which there is for Linux only")
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "identities.json").write_text(json.dumps({"identities": [identity]}))
    names = ["master", "volume", "filer", "s3"]
    names += [f"{name}.port.grpc" for name in names]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    flags = [f"-{name if '.port' in name else name + '.port'}={n}" for name, n in ports.items()]
    command = [
        *("sh", "-c", _UNTIL_PIPE_ENDS, "sh", str(folder / "pipe")),
        *(tool, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *("-s3", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *("-s3.config=" + str(folder / "identities.json"), "-master.telemetry=false"),
        *("-master.volumeSizeLimitMB=64", "-volume.max=40", *flags),
    ]
    (folder / "pipe").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe")
    with (folder / "log").open("wb") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    # Waits until the other end is open.
    stack.callback(os.close, os.open(folder / "pipe", os.O_WRONLY))
    server = Server(ports["s3"])
    _wait_for(server, folder / "log")
    (folder / "port").write_text(str(server.port))
    return server


def _wait_for(server: Server, log: Path) -> None:
    config = {
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "region": "us-east-1",
        "endpoint": f"http://127.0.0.1:{server.port}",
    }
    options: dict[str, Any] = {"retry_config": {"max_retries": 0}}
    options["client_options"] = {"allow_http": True, "timeout": "5s"}
    store = from_url(f"s3://{server.bucket}", config=config, **options)  # type: ignore[call-overload]
    until = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < until:
        with suppress(obstore.exceptions.BaseError, FileNotFoundError):
            obstore.put(store, "is-it-there", b"yes")
            return
        time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")


def free_ports(n_ports: int) -> list[int]:
    """Return ports that nobody listens on, and that the system does not give to connections."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < n_ports:
            tried, port = stack.enter_context(socket.socket()), secrets.choice(_PORTS)
            with suppress(OSError):
                tried.bind(("127.0.0.1", port))
                found.append(port)
    return found


@dataclass
class Proxy:
    """What passes requests on, but for some.

    Attributes
    ----------
    at
        Number of the request at which something goes wrong, from 1 on; 0 for none.
    fault
        What does: ``throttle``, ``error``, ``deny``, ``absent`` and ``odd`` answer 503, 500, 403
        and 404, with all that is secret; ``refuse`` says nothing and closes, ``lose`` does so when
        the request has been carried out, ``cut`` after half of the answer; ``slow`` answers late,
        ``kill`` calls `on_kill`.
    n_times
        How many requests in a row it goes wrong for.
    """

    upstream: int
    at: int = 0
    fault: str = ""
    n_times: int = 1
    on_kill: Callable[[], None] | None = None
    log: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def begin(self, at: int = 0, fault: str = "", n_times: int = 1) -> None:
        """Count requests anew."""
        self.at, self.fault, self.n_times = at, fault, n_times
        self.log.clear()

    def fault_of(self, request: str) -> str:
        """Count a request, and return what goes wrong with it."""
        with self.lock:
            self.log.append(request)
            return self.fault if 0 <= len(self.log) - self.at < self.n_times and self.at else ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are sent at once: apart, the other side waits before it confirms the first.
    wbufsize = -1
    proxy: Proxy

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.fault_of(f"{self.command} {self.path}")
        if fault == "kill" and self.proxy.on_kill is not None:
            self.proxy.on_kill()
        if fault in _REFUSALS:
            status, code = _REFUSALS[fault]
            self._answer(status, _refusal(code), {}, fault)
        elif fault not in {"refuse", "kill"}:
            self._pass_on(body, fault)
        else:
            self.close_connection = True

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - as above

    def _pass_on(self, body: bytes, fault: str) -> None:
        if fault == "slow":
            time.sleep(0.5)
        upstream = HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=30)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(body or None)
            found = upstream.getresponse()
            content = found.read()
        except (OSError, HTTPException):
            self.close_connection = True
            return
        finally:
            upstream.close()
        if fault == "lose":
            self.close_connection = True
            return
        self._answer(found.status, content, dict(found.getheaders()), fault)

    def _answer(self, status: int, content: bytes, headers: dict[str, str], fault: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        # The answer to HEAD says how long the one to GET would be.
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)
        self.close_connection = self.close_connection or fault == "cut"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _refusal(code: str) -> bytes:
    said = f"<Code>{code}</Code><Message>{ACCESS_KEY} {SECRET_KEY}</Message>"
    return f'<?xml version="1.0" encoding="UTF-8"?><Error>{said}</Error>'.encode()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing when clients go away."""


def start_proxy(upstream: int, stack: ExitStack) -> tuple[Proxy, int]:
    """Start a proxy before a server; return it and where it listens."""
    proxy = Proxy(upstream)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    listener = stack.enter_context(_Listener(("127.0.0.1", 0), handler))
    Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
    stack.callback(listener.shutdown)
    return proxy, listener.server_address[1]


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Each process has a folder in one of them all.
        folder = folder.parent
    with ExitStack() as stack:
        yield join(folder / "server", stack)


@pytest.fixture
def server(running_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server, which the environment leads to."""
    running_server.reach(monkeypatch)
    return running_server
