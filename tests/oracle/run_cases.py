"""The operator cases without pytest: fast, and the refusals gathered by reason. For work on a family of operators.

    python tests/oracle/run_cases.py [FILTER...] [--jobs 2] [--rows]

A filter is part of a case's name ("conv/", "softmax/4d"). `--rows` prints rows for refused.tsv; each wants its
reason written by a person: a refusal is right only where LiteRT's builtins cannot express the case.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import sys
import tempfile

import converter
from case import judge_case
from litert import Litert
from test_operators import CASES, REFUSED

_litert = None


def run(index):
    global _litert
    if _litert is None:
        _litert = Litert(time_limit=60)
    with tempfile.TemporaryDirectory(prefix="lowtide-case-") as folder:
        verdict = judge_case(CASES[index], pathlib.Path(folder), _litert, quiet=True)
        return verdict.status, verdict.reason.replace(folder + "/", "")


def main():
    parser = argparse.ArgumentParser(description="Run operator cases.")
    parser.add_argument("filter", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", action="store_true", help="print rows for refused.tsv")
    args = parser.parse_args()
    converter.program()
    chosen = [i for i, case in enumerate(CASES) if not args.filter or any(text in case.name for text in args.filter)]
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        results = {CASES[i].name: result for i, result in zip(chosen, pool.map(run, chosen, chunksize=8), strict=True)}
    counts = collections.Counter(status for status, _ in results.values())
    reasons = collections.defaultdict(list)
    failed = 0
    for name, (status, reason) in results.items():
        listed = name in REFUSED
        good = status == "pass" if not listed else status == "refused" and REFUSED[name] in reason
        failed += not good
        if status == "refused":
            if not listed:
                reasons[reason].append(name)
        elif not good:
            print(f"{status}: {name}: {reason or 'listed in refused.tsv, but passes'}")
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        if args.rows:
            for name in names:
                print(f"{name}\t{reason}\t")
        else:
            print(f"refused ({len(names)}): {reason}\n    {', '.join(names[:12])}" + (" ..." if len(names) > 12 else ""))
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()))
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
