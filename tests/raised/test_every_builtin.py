# SPDX-License-Identifier: Apache-2.0
"""Each builtin that has a row in layout/raise, or that is written with others, stands in a case of this folder."""

import pathlib
import re

from ai_edge_litert import schema_py_generated as schema

from tests.support import converter

SOURCES = converter.ROOT / "layout" / "raise"
CASES = pathlib.Path(__file__).parent


def raised_builtins():
    names = {name.replace("_", "").lower(): name for name in vars(schema.BuiltinOperator) if name.isupper()}
    text = "".join(path.read_text() for path in sorted(SOURCES.glob("*.cc")))
    rows = re.findall(r"\{Kind::k(\w+), *\d", text)
    written = re.findall(r"BuiltinOperator::([A-Z0-9_]+)\b", text)
    return sorted({names[row.lower()] for row in rows} | {name for name in written if name in names.values()})


def test_each_has_a_case():
    builtins = raised_builtins()
    assert len(builtins) > 140
    cases = "".join(path.read_text() for path in sorted(CASES.glob("*.py")) if path.name != pathlib.Path(__file__).name)
    assert [name for name in builtins if not re.search(rf"\b{name}\b", cases) and name != "CUSTOM"] == []
