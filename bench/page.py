# SPDX-License-Identifier: Apache-2.0
"""Tables of measurements in pages of docs/: each stands between two marks, comments that name the command that writes it."""


def between(page, begin, end):
    """The text of a page before the mark `begin`, between the marks, and behind `end`."""
    before, rest = page.read_text().split(begin)
    inside, behind = rest.split(end)
    return before, inside, behind


def write(page, begin, end, text):
    """Puts a text between the marks, in the place of what stands there."""
    before, _, behind = between(page, begin, end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{behind}")
