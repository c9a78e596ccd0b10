# SPDX-License-Identifier: Apache-2.0
"""Every operator of the core graph: each attribute, the old opset forms, ranks, types, and small composed graphs.

The cases stand in tables, one file a family (cases_*.py); case.py says how to write one. Run some of them with
`pytest tests/oracle/test_operators.py -k conv/`.

A case may be refused only if refused.tsv lists it, with words of the error and the reason why LiteRT cannot express
it; a listed case that converts after all must leave the list.
"""

import pytest

from tests.oracle.all_cases import CASES, REFUSED
from tests.support.case import judge_case


def test_names_are_unique_and_refused_cases_exist():
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)
    assert set(REFUSED) <= set(names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operator(case, tmp_path, litert, lowtide):
    verdict = judge_case(case, tmp_path, litert)
    if case.name in REFUSED:
        assert verdict.status == "refused", f"listed in refused.tsv, but {verdict}"
        assert REFUSED[case.name] in verdict.reason
    else:
        assert verdict.passed, str(verdict)
