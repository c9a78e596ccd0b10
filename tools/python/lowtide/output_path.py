# SPDX-License-Identifier: Apache-2.0
"""Whether a file can be written, asked before the work whose result it gets. Nothing stays behind and no file is changed."""

from __future__ import annotations

import errno
import os

from .errors import Io


def check_output_path(path: str) -> None:
    """Raises Io where `path` cannot be written. A pipe or a device is not opened: that could wait, or be seen at its other end."""
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        # A link to nowhere is written through, so the trial is made where it points to.
        trial = f"{os.path.realpath(path)}.{os.getpid()}.tmp"
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(trial)
    except OSError as error:
        raise Io(f"{path}: cannot be written: {error.strerror}", file=path) from error
