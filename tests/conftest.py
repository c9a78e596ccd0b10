# SPDX-License-Identifier: Apache-2.0
"""Counts that the suites give beside passed and failed: what a test records as a property (record_property("faults
injected and survived", 94)) is summed up over all tests that passed, and shown in a line before the last one."""

import collections

COUNTED = ("faults injected and survived", "kills survived", "hostile files refused")


def pytest_terminal_summary(terminalreporter):
    counts = collections.Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name in COUNTED and report.when == "call":
                counts[name] += value
    for name in COUNTED:
        if counts[name]:
            terminalreporter.write_line(f"{counts[name]} {name}")
