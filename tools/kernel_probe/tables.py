# SPDX-License-Identifier: Apache-2.0
"""Turns answers into layout/core/kernel_limits.inc and docs/kernels.md."""

import collections
import dataclasses
import importlib.metadata
import re
import textwrap

from .case import ALL

ORDER = ALL + ("C64",)


@dataclasses.dataclass
class Row:
    op: str
    dtypes: list
    min_rank: int
    max_rank: int
    broadcast_rank: int  # 0: the operator does not broadcast, or its kernel does not in every form


def by_op(results, group):
    """{op: [(key, status, reason)]} of one group."""
    found = collections.defaultdict(list)
    for case, status, reason in results:
        if case.group == group:
            found[case.op].append((case.key, status, reason))
    return found


def safest(results, *others):
    """Answers that hold in every mode in which a case was run: one that is not `right` wins."""
    for other in others:
        of = {id(case): (status, reason) for case, status, reason in other}
        results = [(c, *(of.get(id(c), (s, r)) if s == "right" else (s, r))) for c, s, r in results]
    return results


def right_ranks(answers):
    """{dtype: set of ranks at which the kernel is right}."""
    ranks = collections.defaultdict(set)
    for (dtype, rank), status, _ in answers:
        if status == "right":
            ranks[dtype].add(rank)
    return ranks


def broadcast_rank(answers, dtypes, max_rank):
    """The highest rank up to which every form of broadcasting is right for all of these types."""
    wrong = [key[1] for key, status, _ in answers if key[0] in dtypes and status != "right" and key[1] <= max_rank]
    tried = [key[1] for key, _, _ in answers if key[0] in dtypes]
    return min(wrong) - 1 if wrong else min(max(tried, default=0), max_rank)


def rows(results):
    broadcasts, found = by_op(results, "broadcast"), []
    for op, answers in by_op(results, "grid").items():
        ranks = right_ranks(answers)
        # A scalar may come out right by luck where the kernel reads past its end: rank 0 counts only if every type gets it.
        positive = {d: r - {0} or r for d, r in ranks.items()}
        if not positive:
            continue
        # The first type (F32 where there is one) sets the ranks of the row; types that do worse stay out of it.
        first = positive[min(positive, key=ORDER.index)]
        dtypes = [d for d in ORDER if positive.get(d, set()) >= first]
        shared = set.intersection(*(ranks[d] for d in dtypes)) & (first | {0})
        assert shared and shared == set(range(min(shared), max(shared) + 1)), (op, shared)
        found.append(
            Row(op, dtypes, min(shared), max(shared), broadcast_rank(broadcasts.get(op, []), dtypes, max(shared)))
        )
    found += cast_row(by_op(results, "cast"))
    return sorted(found, key=lambda row: row.op)


def cast_row(answers):
    """CAST takes pairs of types: the row lists types among which every pair is right."""
    for op, pairs in answers.items():
        right = {key for key, status, _ in pairs if status == "right"}
        dtypes = list(ALL)

        def failures(d):
            return sum(((d, e) not in right) + ((e, d) not in right) for e in dtypes)

        while worst := max(map(failures, dtypes)):
            dtypes.remove(next(d for d in dtypes if failures(d) == worst))
        return [Row(op, dtypes, 0, 8, 0)]
    return []


def inc_line(row):
    return f"KERNEL({row.op}, {' | '.join(row.dtypes)}, {row.min_rank}, {row.max_rank}, {row.broadcast_rank})"


@dataclasses.dataclass
class QuantizedRow:
    op: str
    any_scales: list
    one_scale: list


def quantized_rows(results):
    """Types that quantized kernels get right in every form: with any scales, and if operands and result share one scale."""
    found = []
    for op, answers in by_op(results, "quantized").items():
        failed = collections.defaultdict(set)
        forms = {key[0] for key, _, _ in answers if "no bias" not in key[0]}
        for (form, dtype), status, _ in answers:
            if status != "right":
                failed[form].add(dtype)
        types = [d for d in ORDER if d in {key[1] for key, _, _ in answers}]
        free = (
            [d for d in types if not any(d in failed[f] for f in forms - {"one scale"})]
            if forms - {"one scale"}
            else []
        )
        one = [d for d in types if d not in failed["one scale"]] if "one scale" in forms else free
        if free or one:
            found.append(QuantizedRow(op, free, one))
    return sorted(found, key=lambda row: row.op)


def quantized_line(row):
    return f"QUANTIZED({row.op}, {' | '.join(row.any_scales) or 'NONE'}, {' | '.join(row.one_scale) or 'NONE'})"


def quantized_table(results):
    lines = []
    for op, answers in sorted(by_op(results, "quantized").items()):
        for form in dict.fromkeys(key[0] for key, _, _ in answers):
            here = [(key[1], status, reason) for key, status, reason in answers if key[0] == form]
            rest = "; ".join(f"{d} {s}" + (f" ({r})" if "units" in r else "") for d, s, r in here if s != "right")
            lines.append([op, form, " ".join(d for d, s, _ in here if s == "right") or "-", rest])
    return table(["operator", "form", "right", "not"], lines)


def inc_text(found, quantized):
    version = importlib.metadata.version("ai-edge-litert")
    head = f"""\
// SPDX-License-Identifier: Apache-2.0
// What the kernels of ai-edge-litert {version} take and get right, with the default delegates and without. Written by
// tools/probe_kernels.py, which runs each and compares with numpy; not edited by hand. docs/kernels.md tells the rest.
//
// KERNEL(operator, types of the data, lowest rank, highest rank (8 is the highest tried), highest rank at which two-way
// broadcasting is right in every form (0: none))
// QUANTIZED(operator, types that its quantized kernel gets right with any scales, types if all share one scale)
"""
    return head + "\n".join([*map(inc_line, found), *map(quantized_line, quantized)]) + "\n"


def differing_rows(found, quantized, text, ops):
    """Rows that differ from the file's, as lines to read."""
    on_file = {(m[1], m[2]): m[0] for m in re.finditer(r"^(KERNEL|QUANTIZED)\((\w+), .*\)$", text, re.M)}
    measured = {("KERNEL", row.op): inc_line(row) for row in found}
    measured |= {("QUANTIZED", row.op): quantized_line(row) for row in quantized}
    names = sorted(n for n in set(on_file) | set(measured) if not ops or n[1] in ops)
    return [
        f"measured {measured.get(n)}\non file  {on_file.get(n)}" for n in names if measured.get(n) != on_file.get(n)
    ]


# ---- The page -----------------------------------------------------------------------------------------------------


def ranges(numbers):
    """1, 2, 3, 5 as '1-3, 5'."""
    runs = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def short(reason):
    """The kernel's reason without its source position and the node's number."""
    reason = re.sub(r"\s*Node number \d+ \(\w+\) failed to (prepare|invoke)\.?\s*", "", reason.strip().split("\n")[0])
    reason = re.sub(r"^\S*tflite/\S+\.cc(:\d+)?\s*", "", reason)
    reason = re.sub(r"values off by .*", "values", reason)
    return reason.replace("||", "or").replace("|", "/").replace("\n", " ")[:140]


def table(header, lines):
    return (
        "\n".join(
            ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
            + ["| " + " | ".join(line) + " |" for line in lines]
        )
        + "\n"
    )


def row_table(found, versions):
    return table(
        ["operator", "types", "ranks", "broadcasting up to rank", "versions"],
        [
            [
                r.op,
                " ".join(r.dtypes),
                ranges(range(r.min_rank, r.max_rank + 1)),
                str(r.broadcast_rank or "-"),
                f"1-{versions[r.op]}",
            ]
            for r in found
        ],
    )


def bad_types(results):
    """Types with which an operator runs and answers wrongly, or crashes."""
    lines = []
    for op, answers in sorted(by_op(results, "grid").items()):
        bad = collections.defaultdict(lambda: collections.defaultdict(set))
        for (dtype, rank), status, _ in answers:
            if status in ("WRONG", "CRASH"):
                bad[dtype][status].add(rank)
        shown = collections.defaultdict(list)
        for dtype, by_status in bad.items():
            shown["; ".join(f"{s} at ranks {ranges(r)}" for s, r in sorted(by_status.items()))].append(dtype)
        lines += [[op, " ".join(d for d in ORDER if d in dtypes), text] for text, dtypes in shown.items()]
    return table(["operator", "types", "what happens"], lines)


def index_table(results):
    lines = []
    for op, answers in sorted(by_op(results, "index").items()):
        names = list(dict.fromkeys(key[0] for key, _, _ in answers))
        for name in names:
            cell = {}
            for form in ("constant", "at run time"):
                here = {key[1]: status for key, status, _ in answers if key[0] == name and key[2] == form}
                cell[form] = (
                    " ".join(d if s == "right" else f"{d} ({s})" for d, s in here.items() if s != "refused") or "none"
                )
            lines.append([op, name, cell["constant"], cell["at run time"]])
    return table(["operator", "operand", "types as a constant", "types at run time"], lines)


def broadcast_table(results, found):
    """Forms of broadcasting that some rank or type does not get right, for the types of the operator's row."""
    dtypes, lines = {r.op: r.dtypes for r in found}, []
    for op, answers in sorted(by_op(results, "broadcast").items()):
        forms = collections.defaultdict(lambda: collections.defaultdict(set))
        for (dtype, rank, form), status, _ in answers:
            if dtype in dtypes.get(op, ()):
                forms[form][status].add(rank)
        for form, by_status in forms.items():
            if set(by_status) != {"right"}:
                lines.append([op, form, "; ".join(f"{s}: {ranges(r)}" for s, r in sorted(by_status.items()))])
    return table(["operator", "form", "ranks"], lines)


def cast_table(results):
    answers = by_op(results, "cast").get("CAST", [])
    sign = {"right": "", "refused": "-", "WRONG": "WRONG", "CRASH": "CRASH"}
    cells = {key: sign[status] for key, status, _ in answers}
    return table(["from \\ to", *ALL], [[a, *(cells.get((a, b), "?") for b in ALL)] for a in ALL])


def forms_text(results):
    """Forms of operators: first what is right, then what is not and why."""
    text, plain = [], []
    for op, answers in sorted(by_op(results, "variant").items()):
        right = [key[0] for key, status, _ in answers if status == "right"]
        rest = [(key[0], status, reason) for key, status, reason in answers if status != "right"]
        if not rest and right == ["no elements [0,3]"]:
            plain.append(op)
            continue
        text.append(f"### {op}\n")
        if right:
            text.append("Right: " + "; ".join(right) + ".\n")
        if rest:
            text.append("\n".join(f"* **{status}** {form}: {short(reason)}" for form, status, reason in rest) + "\n")
    return f"Right with no elements ([0,3]): {', '.join(plain)}.\n\n" + "\n".join(text)


def permutation_text(results):
    answers = by_op(results, "permutations").get("TRANSPOSE", [])
    wrong = [key for key, status, _ in answers if status != "right"]
    return f"TRANSPOSE: {len(answers) - len(wrong)} of the {len(answers)} permutations of ranks 2 to 5 are right{': not ' + str(wrong) if wrong else ''}.\n"


def delegate_table(results, delegated, heading="without -> with"):
    """Where another mode, such as the default delegates (XNNPACK), changes an answer."""
    plain, groups = {id(c): s for c, s, _ in results}, collections.defaultdict(list)
    for case, status, reason in delegated:
        before = plain.get(id(case))
        if before and before != status:
            groups[(case.op, case.group, before, status, short(reason) if status != "right" else "")].append(case.key)
    lines = []
    for (op, _group, before, status, reason), keys in sorted(groups.items(), key=lambda item: item[0]):
        shown = ", ".join(" ".join(map(str, k)) for k in keys[:6]) + (
            f" and {len(keys) - 6} more" if len(keys) > 6 else ""
        )
        lines.append([op, shown, f"{before} -> {status}", reason])
    return table(["operator", "form (type, rank)", heading, "reason"], lines)


def dynamic_text(answers):
    """Which operators follow an input that is resized when the model is loaded."""
    right = [c.op for c, status, _ in answers if status == "right"]
    rest = [f"* **{status}** {c.op}: {short(reason)}" for c, status, reason in answers if status != "right"]
    return f"Right: {', '.join(sorted(right))}.\n\n" + ("\n".join(sorted(rest)) or "None was refused or wrong.") + "\n"


def with_index(page):
    """The page, with links to its sections and to the operators below "Forms" after its first paragraph."""
    seen, sections, operators = collections.Counter(), [], []
    for line in page.splitlines():
        if line.startswith(("## ", "### ")):
            title = line.lstrip("# ")
            anchor = title.lower().replace(" ", "-")
            again = f"-{seen[anchor]}" if seen[anchor] else ""  # CAST is the title of two sections
            seen[anchor] += 1
            (sections if line.startswith("## ") else operators).append(f"[{title}](#{anchor}{again})")
    head, rest = page.split("\n\n## ", 1)
    links = textwrap.fill(" ".join(operators), 160, break_long_words=False, break_on_hyphens=False)
    index = "\n".join(f"* {section}" for section in sections)
    return f"{head}\n\n{index}\n\nOperators that have a section of forms:\n\n{links}\n\n## {rest}"


def page_text(found, results, delegated, reference, dynamic, versions):
    missing = [n for n in ALL_BUILTINS() if n not in versions]
    unprobed = [n for n in versions if n not in {r.op for r in found}]
    version = importlib.metadata.version("ai-edge-litert")
    return with_index(f"""\
# What the TFLite kernels support

Measured with ai-edge-litert {version} by `tools/probe_kernels.py`, which writes this page: each form is a model of one operator, which is run
and compared with numpy. Types, ranks, broadcasting and index types below are valid with the default delegates (XNNPACK) and without;
the other sections are about the kernels without delegates. *Refused*: the runtime reports an error. *WRONG*: the model runs, but its
result is wrong. *CRASH*: the process crashes. Types are those of the data; I4, I8, ... are plain integers, without scale and zero point.

## Types and ranks

8 is the highest rank tried. Broadcasting means all forms at once: two-way, a scalar on either side, the last axis, axis 1, one element.

{row_table(found, versions)}
## Types that are accepted but give wrong results

These must not be emitted: the runtime reports no error.

{bad_types(results)}
## Operators that broadcast in some forms only

For the types of the first table.

{broadcast_table(safest(results, delegated), found)}
## Types of index operands

{index_table(safest(results, delegated))}
## CAST

From the type of the row to that of the column; an empty cell means right. Tested with values in the target's range; floats are truncated.

{cast_table(results)}
## Quantized kernels

Integers with per-tensor scales (weights also per channel). Right: within one unit of the rounded float result. The results of LOGISTIC,
TANH, SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION have fixed scales. Valid with XNNPACK, with the built-in kernels, and with the reference kernels.

{quantized_table(safest(results, delegated, reference))}
## Forms

{permutation_text(results)}
{forms_text(results)}
## A dynamic first dimension

Inputs have 1 in the shape and -1 in the signature, and are resized by the caller; constants have the sizes of the resized form. With and
without the default delegates.

{dynamic_text(dynamic)}
## Differences with the default delegates

The same models with XNNPACK, the interpreter's default.

{delegate_table(results, delegated)}
## Differences with the reference kernels

The models of quantized kernels with LiteRT's reference kernels (`BUILTIN_REF`), in the versions that these have.

{delegate_table(results, reference, "built-in -> reference")}
## Which builtins have a kernel

Without a kernel: {", ".join(missing)}.

With a kernel, but not in the tables above: {", ".join(f"{n} (versions 1-{versions[n]})" for n in sorted(unprobed))}.
""")


def ALL_BUILTINS():
    from .one_op import schema

    return [
        n
        for n in vars(schema.BuiltinOperator)
        if n.isupper() and n not in ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")
    ]
