"""Announce that the program has reached a moment, e.g. "half".

``pylb lab`` then changes the limits of ranks as its file says for this moment.
"""

from __future__ import annotations

import os
import socket

VARIABLE = "PYLB_LAB_MOMENTS"
"""Environment variable: the socket on which the lab listens."""


def announce(moment: str) -> bool:
    """Tell the lab that a moment has come; return after the lab has made the changes for it.

    Any rank may call this function; only the first call for a moment counts.  Outside of a lab,
    nothing happens.

    Parameters
    ----------
    moment : str
        The name of the moment: `when` of changes in the lab's file.

    Returns
    -------
    bool
        Whether the lab changed anything.

    Examples
    --------
    >>> pylb.lab.announce("half")  # outside of a lab
    False
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        line.sendall(moment.encode())
        line.shutdown(socket.SHUT_WR)
        return line.recv(1) == b"1"
