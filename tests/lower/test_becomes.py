# SPDX-License-Identifier: Apache-2.0
"""layout/lower/becomes.inc is what the golden listings say."""

from tests.lower import write_becomes


def test_it_is_current():
    assert write_becomes.OUT.read_text() == write_becomes.text(), "run python -m tests.lower.write_becomes"


def test_most_operators_have_a_row():
    assert write_becomes.text().count("ROW(") > 0.85 * len(write_becomes.rows_of_table())
