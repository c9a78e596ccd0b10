# SPDX-License-Identifier: Apache-2.0
"""The operator cases without pytest: fast, and what fails gathered by reason. For work on a family of operators.

    python -m tests.oracle.run_cases [FILTER...] [--jobs 2] [--option=--for=gpu] [--rows]

A filter is part of a case's name ("conv/", "softmax/4d"). `--rows` prints rows for refused.tsv; each needs its
reason written by a person: a refusal is right only where LiteRT's builtins cannot express the case.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import sys
import tempfile

from tests.oracle.all_cases import CASES, REFUSED
from tests.support import converter
from tests.support.case import judge_case
from tests.support.litert import Litert

_litert = None


def run(index, options):
    global _litert
    if _litert is None:
        _litert = Litert(time_limit=60)
    with tempfile.TemporaryDirectory(prefix="lowtide-case-") as folder:
        verdict = judge_case(CASES[index], pathlib.Path(folder), _litert, quiet=True, options=options)
        return verdict.status, verdict.reason.replace(folder + "/", "")


def main():
    parser = argparse.ArgumentParser(description="Run operator cases.")
    parser.add_argument("filter", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--option", action="append", default=[], help="passed on to lowtide convert, as --option=--x=y")
    parser.add_argument("--rows", action="store_true", help="print rows for refused.tsv")
    args = parser.parse_args()
    converter.program()
    chosen = [i for i, case in enumerate(CASES) if not args.filter or any(text in case.name for text in args.filter)]
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        results = {
            CASES[i].name: result
            for i, result in zip(chosen, pool.map(run, chosen, [args.option] * len(chosen), chunksize=8), strict=True)
        }
    counts = collections.Counter(status for status, _ in results.values())
    groups = collections.defaultdict(list)  # equal outcomes with equal reasons, such as one bug that hits a family
    failed = 0
    for name, (status, reason) in results.items():
        if (
            name in REFUSED
            and status == "refused"
            and REFUSED[name] in reason
            or name not in REFUSED
            and status == "pass"
        ):
            continue
        failed += 1
        groups[status, reason or "listed in refused.tsv, but passes"].append(name)
    for (status, reason), names in sorted(groups.items(), key=lambda item: (item[0][0], len(item[1]))):
        if args.rows and status == "refused":
            print("\n".join(f"{name}\t{reason}\t" for name in names))
        else:
            print(f"{status} ({len(names)}): {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}\n    {reason}")
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()))
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
