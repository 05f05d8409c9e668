"""The version of this package, and whether a daemon serves it."""
from __future__ import annotations

import re

__version__ = "0.1.0"

_SEMANTIC = re.compile(r"v?(\d+)\.(\d+)\.\d+(?:[-+].*)?")


def mismatch(daemon: str, ours: str = __version__) -> str:
    """Returns what to upgrade if a daemon of this version does not serve this package, or "". Versions that are not semantic are not checked."""
    theirs, own = _SEMANTIC.fullmatch(daemon), _SEMANTIC.fullmatch(ours)
    if not theirs or not own:
        return ""
    (major, minor), needed = map(int, theirs.groups()), int(own[1])
    if major < needed or (major, minor) == (0, 0):
        return f"upgrade the daemon to {needed or '0.1'} or later"
    return f"upgrade the package toold to {major}" if major > needed else ""
