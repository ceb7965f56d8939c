"""Moments: a program under ``pylb lab`` says where it is, and the lab changes then."""

from __future__ import annotations

import os
import socket

VARIABLE = "PYLB_LAB_MOMENTS"
"""Environment variable: the socket on which the lab listens."""


def announce(moment: str) -> bool:
    """Tell the lab that a moment has come; returns when what it changes has changed.

    Any rank may; a moment counts once, the first time.  Outside of a lab nothing happens.

    Parameters
    ----------
    moment : str
        The `when` of changes in the lab's file.

    Returns
    -------
    bool
        Whether something changed.
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        line.sendall(moment.encode())
        line.shutdown(socket.SHUT_WR)
        return line.recv(1) == b"1"
