# SPDX-License-Identifier: Apache-2.0
"""Writes the golden cases of the lowerings from the operator cases that LiteRT judges (tests/oracle).

    python -m tests.lower.write_cases        rewrites tests/lower/*.txt, without their listings
    UPDATE_GOLDEN=1 build/release/tests/lower_test     fills the listings in

A case that is in the files stays. Another is taken when it shows something that no case before it shows: an operator, an
attribute, a mode, a rank, an element type, which operands are constants, a chain of operators. Operators without a case are
taken from ONNX's node suite. Random weights are written as `random`; values that decide about the graph (indices, small
arrays) are written out.
"""

import collections
import pathlib
import re

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.conformance import run_nodes
from tests.oracle.all_cases import BY_FAMILY, REFUSED

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "layout/lower/table.cc"
MOST_VALUES = 64
LARGEST = 6000  # letters of a case's text
NAMES = {number: name.lower() for name, number in TensorProto.DataType.items()}
RANDOM = ("float", "float16", "double", "int8", "uint8", "int4", "uint4", "bool")
WRITTEN_OUT = ("float", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


class NotWritten(Exception):
    """The model needs something that the text form of these cases does not have."""


def quoted(text):
    if not re.fullmatch(r"[ -!#-\[\]-~]*", text):
        raise NotWritten(f"the string {text!r}")
    return f'"{text}"'


def number(value):
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return (
        str(int(value))
        if isinstance(value, (int, np.integer))
        else repr(float(value))
        if value.dtype == np.float64
        else str(value)
    )


def typed(kind):
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return f"{which.split('_')[0].replace('sequence', 'seq')}({typed(getattr(kind, which).elem_type)})"
    if which != "tensor_type":
        raise NotWritten(f"a value of {which}")
    of = kind.tensor_type
    if not of.HasField("shape"):
        return f"{NAMES[of.elem_type]}[]"
    dims = [d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?") for d in of.shape.dim]
    if not all(re.fullmatch(r"\w+|\?", d) for d in dims):
        raise NotWritten(f"the dimensions {dims}")
    return f"{NAMES[of.elem_type]}[{','.join(dims)}]" if dims else NAMES[of.elem_type]


def value(info):
    return f"{typed(info.type)} {info.name}" if info.type.WhichOneof("value") else info.name


def tensor(of, is_random=False):
    """Its type and its values."""
    dims = f"[{','.join(map(str, of.dims))}]" if of.dims else ""
    head = f"{NAMES[of.data_type]}{dims}"
    if of.data_type == TensorProto.STRING:
        return head, "{" + ",".join(quoted(s.decode()) for s in of.string_data) + "}"
    array = numpy_helper.to_array(of)
    if is_random or array.size > MOST_VALUES:
        if NAMES[of.data_type] not in RANDOM:
            raise NotWritten(f"{array.size} values of type {NAMES[of.data_type]}")
        return head, "random"
    if NAMES[of.data_type] in WRITTEN_OUT:
        return head, "{" + ",".join(number(v) for v in array.reshape(-1)) + "}"
    return head, f'raw "{numpy_helper.from_array(array).raw_data.hex()}"'


def attribute(a, indent):
    if a.type == AttributeProto.INT:
        text = str(a.i)
    elif a.type == AttributeProto.FLOAT:
        text = str(np.float32(a.f))
        text += "" if re.search(r"[.en]", text) else ".0"
    elif a.type == AttributeProto.STRING:
        text = quoted(a.s.decode())
    elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        if a.type == AttributeProto.INTS:
            text = f"[{','.join(map(str, a.ints))}]"
        elif a.type == AttributeProto.FLOATS:
            items = [str(np.float32(f)) for f in a.floats]
            text = f"[{','.join(t if re.search('[.en]', t) else t + '.0' for t in items)}]"
        else:
            text = f"[{','.join(quoted(s.decode()) for s in a.strings)}]"
        if text == "[]":
            return f"{a.name}: {AttributeProto.AttributeType.Name(a.type).lower()}=[]"
    elif a.type == AttributeProto.TENSOR:
        text = " ".join(tensor(a.t))
    elif a.type == AttributeProto.GRAPH:
        text = graph(a.g, set(), indent)
    else:
        raise NotWritten(f"an attribute of type {a.type}")
    return f"{a.name}={text}"


def graph(g, random, indent=""):
    if g.sparse_initializer:
        raise NotWritten("a sparse initializer")
    ins, outs = (", ".join(value(v) for v in values) for values in (g.input, g.output))
    constants = ",\n".join(
        f"{indent}    {head} {t.name} = {values}"
        for t in g.initializer
        for head, values in [tensor(t, t.name in random)]
    )
    lines = [f"{g.name or 'g'} ({ins}) => ({outs}) {{"]
    if constants:
        lines = [f"{g.name or 'g'} ({ins}) => ({outs}) <", f"{constants}>", f"{indent}{{"]
    for n in g.node:
        if n.overload:
            raise NotWritten("an overload")
        attributes = ", ".join(attribute(a, indent + "    ") for a in n.attribute)
        called = f"{n.domain}.{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type
        names = ", ".join(name or '""' for name in n.output)
        operands = ", ".join(name or '""' for name in n.input)
        lines.append(f"{indent}  {names} = {called}{f'<{attributes}>' if attributes else ''}({operands})")
    return "\n".join([*lines, f"{indent}}}"])


def text(model, random=()):
    if model.functions:
        raise NotWritten("functions")
    opsets = ", ".join(f'"{o.domain}": {o.version}' for o in model.opset_import)
    return f"<opset_import: [{opsets}]>\n{graph(model.graph, set(random))}"


def shown(model):
    """What there is to see in a model."""
    found = set()

    def walk(g, around):
        constants = around | {t.name for t in g.initializer}
        kinds = {v.name: v.type.tensor_type for v in [*g.input, *g.value_info, *g.output]}
        for t in g.initializer:
            kinds[t.name] = helper.make_tensor_type_proto(t.data_type, t.dims).tensor_type
        for n in g.node:
            op = (n.domain, n.op_type)
            found.add(
                (
                    op,
                    "operands",
                    tuple("-" if not i else "c" if i in constants else "r" for i in n.input),
                    len(n.output),
                )
            )
            first = kinds.get(n.input[0]) if n.input else None
            if first is not None:
                found.add((op, "rank", len(first.shape.dim), any(not d.HasField("dim_value") for d in first.shape.dim)))
                found.add((op, "type", first.elem_type))
            for a in n.attribute:
                found.add((op, a.name, a.s if a.type == AttributeProto.STRING else None))
                if a.HasField("g"):
                    walk(a.g, constants)
        if 1 < len(g.node) < 5:  # a pattern, for what is fused
            found.add(tuple(n.op_type for n in g.node))

    walk(model.graph, set())
    return found


def operators(model):
    def walk(g):
        for n in g.node:
            yield n.domain.replace("ai.onnx", ""), n.op_type
            for a in n.attribute:
                if a.HasField("g"):
                    yield from walk(a.g)

    return set(walk(model.graph))


def suite_cases(missing):
    """(name, model) of the node suite, up to two for each operator that has no case."""
    taken = collections.Counter()
    for case in run_nodes.read_list(run_nodes.HERE / "cases.txt"):
        if "expanded" in case:
            continue
        given, inputs, _ = run_nodes.load_case(case)
        for op in operators(given) & missing:
            for model in (given, run_nodes.freeze(given, inputs)):
                if model is not None and taken[op] < 4:
                    taken[op] += 1
                    yield f"node_suite/{case.removeprefix('test_')}{'' if model is given else '_frozen'}", model


def committed():
    """The names of the cases that are in the files now."""
    return {
        line.removeprefix("case ")
        for path in HERE.glob("*.txt")
        for line in path.read_text().splitlines()
        if line.startswith("case ")
    }


def main():
    seen, left = set(), collections.Counter()
    rows = set(re.findall(r'ROW\("([^"]*)", "([^"]+)"', TABLE.read_text()))
    stays, written = committed(), set()
    texts = {}  # by family and name

    def take(family, name, model, random=()):
        new = shown(model) - seen
        if not new and name not in REFUSED and name not in stays:
            return
        try:
            made = text(model, random)
            if len(made) > LARGEST:
                raise NotWritten("a text that is too long")
        except NotWritten as reason:
            left[str(reason)] += 1
            return
        seen.update(new)
        written.update(operators(model))
        texts[family, name] = f"case {name}\n{made}\n"

    every = [(family.removeprefix("cases_"), case) for family, cases in BY_FAMILY.items() for case in cases]
    for family, case in sorted(every, key=lambda pair: pair[1].name not in stays):
        random = [name for name, weight in case.weights.items() if isinstance(weight, tuple)]
        take(family, case.name, case.model(), random)
    for name, model in suite_cases(rows - written):
        take("node_suite", name, model)
    files = collections.defaultdict(list)
    for family, case in every:
        if (family, case.name) in texts:
            files[family].append(texts.pop((family, case.name)))
    for (family, _), made in texts.items():
        files[family].append(made)
    for old in HERE.glob("*.txt"):
        old.unlink()
    for family, cases in files.items():
        (HERE / f"{family}.txt").write_text("\n".join(cases))
    print(f"{sum(map(len, files.values()))} cases in {len(files)} files; not written: {dict(left)}")
    print("operators without a case:", ", ".join(".".join(op).lstrip(".") for op in sorted(rows - written)) or "none")


if __name__ == "__main__":
    main()
