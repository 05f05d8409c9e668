"""The version of this package, and whether a daemon serves it."""
from __future__ import annotations

import re

__version__ = "0.1.0"

_SEMANTIC = re.compile(r"v?(\d+)\.(\d+)\.\d+(?:[-+].*)?")
_COMMIT = re.compile(r"v?0\.0\.0-")


def mismatch(daemon: str, ours: str = __version__) -> str:
    """Returns what to upgrade if a daemon of this version does not serve this package, or "".

    It accepts versions that are not semantic, and builds of a commit before the first release, such as 0.0.0-20261124094551-293eaa05f00d.
    """
    theirs, own = _SEMANTIC.fullmatch(daemon), _SEMANTIC.fullmatch(ours)
    if not theirs or not own:
        return ""
    (major, minor), needed = map(int, theirs.groups()), int(own[1])
    if major < needed or (major, minor) == (0, 0) and not _COMMIT.match(daemon):
        return f"upgrade the daemon to {needed or '0.1'} or later"
    return f"upgrade the package toold to {major}" if major > needed else ""
