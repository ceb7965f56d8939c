"""Serve a page that shows a run while its program writes it: ``pylb watch --serve``.

The server is only for this host.  Its address contains a secret, so that other users of the host
cannot read the run.  The file is read only while a browser asks for it, and less often if reading
takes long.  If possible, the server runs with the policy SCHED_IDLE: it uses free time of the
cores, and takes almost no time from the ranks (its weight in the scheduler is 3, a rank's 1024).
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from pylb.console import json_text, plain, script_json
from pylb.errors import DomainError, FormatError
from pylb.replaying.trace import RunRecord
from pylb.show import course, live, page

SHARE = {True: 0.05, False: 0.005}  # fraction of a core for reading: with SCHED_IDLE, without it
HOSTS = ("127.0.0.1", "localhost")
# Errors of reading a file that is missing, being written or without a complete iteration.
NOT_YET = (FileNotFoundError, DomainError, FormatError)
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def state_of(path: str | os.PathLike[str]) -> str:
    """Return what changes when a program writes the file."""
    stat = os.stat(path)
    return f"{stat.st_mtime_ns}-{stat.st_size}"


class RunFile:
    """The run in a growing file, read at most every `interval` s, with `share` of a core."""

    def __init__(self, path: str | os.PathLike[str], interval: float, share: float) -> None:
        self._path, self._interval, self._share = Path(path), interval, share
        self._lock = threading.Lock()
        self.due = 0.0  #: Earliest time of the next reading.
        self._tried = ""  # the state of the file when it was most recently read
        self._now: dict[str, Any] = {"said": f"{self._path.name}: nothing yet", "seen": ""}

    def news(self, seen: str) -> dict[str, Any]:
        """Return data for a page; `seen`: the state it shows, which is not sent again."""
        with self._lock:
            if time.monotonic() >= self.due:
                begin = time.thread_time()
                try:
                    changed = state_of(self._path)
                    if changed != self._now["seen"]:
                        old, new = self._now, {**_shown(self._path), "seen": changed}
                        n = old["picture"]["n_iterations"] if "picture" in old else 0
                        goes_on = 0 < n <= new["picture"]["n_iterations"]
                        lost = goes_on and new["decisions_in_all"] < old["decisions_in_all"]
                        if not lost or changed == self._tried:  # lost: it was being written
                            self._now = new
                        self._tried = changed
                except NOT_YET:
                    pass  # show the old
                used = time.thread_time() - begin
                self.due = time.monotonic() + max(self._interval, used / self._share)
            now = self._now
        return {k: now[k] for k in ("said", "seen")} if now["seen"] == seen else now


def _shown(path: Path) -> dict[str, Any]:
    record = RunRecord.load(path)
    run = dataclasses.replace(course.of(record, title=path.name), objects=None)
    ended = any(loop.first + loop.n <= record.n_iterations for loop in record.loops[-1:])
    said = live.head(live.state(run)) + "; the planned iterations are done" * ended
    return dict(plain({**page.data(run), "said": said, "ended": ended}))


def step_back() -> bool:
    """Run this process only when a core is free; return False if the system cannot do this."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        return False
    return True


class Server(ThreadingHTTPServer):
    """A server of one run on this host.  Port 0 means any free port; see `RunFile` for the rest."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        port: int = 0,
        interval: float = 1.0,
        share: float = SHARE[False],
    ) -> None:
        self.run = RunFile(path, interval, share)
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((HOSTS[0], port), _Answer)
        except OSError as why:
            raise DomainError(f"port is {port}: {why.strerror or why}") from None

    @property
    def address(self) -> str:
        """The address of the page, with its secret."""
        return f"http://{HOSTS[0]}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless a browser has closed the connection before the answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        token, *name = path.removeprefix("/").split("/")
        host = self.headers.get("Host", "").rpartition(":")[0]
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        if not known or host not in HOSTS or name not in ([""], ["run.json"]):
            self.send_error(HTTPStatus.NOT_FOUND)
        elif name == [""]:
            empty = page.framed(script_json(None), "live.js", also="; connect-src 'self'")
            self._send("text/html; charset=ascii", empty)  # the script asks for the data
        else:
            seen = parse_qs(query).get("seen", [""])[0]
            self._send("application/json", json_text(self.server.run.news(seen)))

    def _send(self, kind: str, text: str) -> None:
        body = text.encode("ascii")
        self.send_response(HTTPStatus.OK)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing, because requests would fill the user's terminal."""
