# SPDX-License-Identifier: Apache-2.0
"""The operator cases of all families (cases_*.py), and those that Lowtide must refuse (refused.tsv)."""

import importlib
import pathlib

FOLDER = pathlib.Path(__file__).parent
FAMILIES = sorted(path.stem for path in FOLDER.glob("cases_*.py"))
BY_FAMILY = {family: importlib.import_module(f"{__package__}.{family}").CASES for family in FAMILIES}
CASES = [case for cases in BY_FAMILY.values() for case in cases]


def read_refused():
    """{case: words of the error}"""
    rows = (
        line.split("\t")
        for line in (FOLDER / "refused.tsv").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    )
    return {case: words for case, words, _reason in rows}


REFUSED = read_refused()
