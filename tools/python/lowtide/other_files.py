# SPDX-License-Identifier: Apache-2.0
"""Names of files beside a model, as the model gives them: an untrusted model must not read anything else with them."""

from __future__ import annotations

from .errors import UnsafePath


def check_name(path: str, name: str, listed: frozenset[str] | None) -> None:
    """Checks where a model says that its external data is. A link is followed, as caches of models need it.

    Parameters
    ----------
    path : str
        The model.
    name : str
        What it gives.
    listed : frozenset of str or None
        The only names that it may give.

    Raises
    ------
    UnsafePath
        For a name that is not below a folder, or not listed.
    """
    if not name or "\0" in name or name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
        raise UnsafePath(f"{path}: external data in {name!r}, which is not below the model's folder", file=path)
    if listed is not None and name not in listed:
        raise UnsafePath(f"{path}: external data in {name!r}, which the manifest does not list", file=path)
