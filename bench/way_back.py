# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: a table of models compared with other converters, and the cost of a large one.

    python -m bench.way_back table [--folder ../shared/models/tflite] [--others PYTHON] [--write docs/tflite-to-onnx.md]
    python -m bench.way_back large [--size 4G] [--rounds 5] [--folder DIR]

`table`: each model is converted, checked by onnx.checker with full shape inference, run by ONNX Runtime, and compared
with LiteRT with XNNPACK and with its built-in kernels on the same random inputs. Floats: the largest difference, as part
of the range; integers: the share within two steps. A hybrid model (float data, integer weights) is compared with a copy
whose weights were made floats, because LiteRT rounds the data as it runs. A model whose kernels differ from each other is
judged operator by operator (tests/raised/by_operator.py). Where LiteRT does not run the default shape and the model leaves
its last axis open, that axis gets OPEN_AXIS elements; where one runtime overflows and the other does not, at the edge of
what floats hold, the inputs are a quarter as large. The notes of the table say so. --others names a Python that has tf2onnx (with TensorFlow) and
tflite2onnx: `ENV/bin/pip install tensorflow-cpu tf2onnx==1.17.0 tflite2onnx==0.4.1`. What they write counts where ONNX
Runtime loads it.

`large`: alternately, in random order, `cp` and the conversion of a TFLite file to ONNX with external data. Then ONNX Runtime
runs the result.
"""

import argparse
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

import flatbuffers
import numpy as np
import onnx
import onnxruntime
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from bench.measure import LOWTIDE, ROOT, machine, run_once
from bench.page import write
from tests.raised import by_operator
from tests.raised.judge_raised import STEPS, TOLERANCE, inputs_for
from tests.support import converter

BEGIN, END = "<!-- bench/way_back.py writes from here -->\n", "<!-- to here -->\n"
LEAST_SHARE = 0.999
OPEN_AXIS = 4096
# Run by the Python of the other converters: source, output, source, output, ... Each conversion is a process of its own,
# because some crash, and what takes long is imported once.
OTHERS = {
    "tf2onnx": "import tf2onnx.convert\nconvert = lambda a, b: tf2onnx.convert.from_tflite(a, output_path=b)",
    "tflite2onnx": "import tflite2onnx\nconvert = tflite2onnx.convert",
}
EACH = """
import os, signal, sys
for source, output in zip(sys.argv[2::2], sys.argv[3::2]):
    child = os.fork()
    if child == 0:
        signal.alarm(int(sys.argv[1]))
        convert(source, output)
        os._exit(0)
    os.waitpid(child, 0)
"""
LIMIT = 300
NARROW = {schema.TensorType.INT8: np.int8, schema.TensorType.INT4: None}


def integers_of(tensor, data):
    if tensor.type == schema.TensorType.INT8:
        return data.view(np.int8).reshape(tensor.shape)
    halves = np.stack([data & 15, data >> 4], axis=1).reshape(-1)[: int(np.prod(tensor.shape))].astype(np.int8)
    return np.where(halves > 7, halves - 16, halves).reshape(tensor.shape)


def scales_of(graph, model, tensor):
    """Broadcast to the tensor's shape."""
    q = tensor.quantization
    if q.detailsType == schema.QuantizationDetails.BlockwiseQuantization:
        factors = graph.tensors[q.details.scales]
        kind = np.float16 if factors.type == schema.TensorType.FLOAT16 else np.float32
        data = np.asarray(model.buffers[factors.buffer].data, np.uint8).view(kind).reshape(factors.shape)
        return np.repeat(data.astype(np.float32), q.details.blockSize, axis=1)
    shape = [1] * len(tensor.shape)
    if len(q.scale) > 1:
        shape[q.quantizedDimension] = -1
    return np.asarray(q.scale, np.float32).reshape(shape)


def float_copy(source, target):
    """Writes a copy in which weights of integers beside float data are floats. False: there are none."""
    model = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    found = False
    for graph in model.subgraphs:
        for operator in graph.operators or []:
            code = model.operatorCodes[operator.opcodeIndex]
            kind = max(code.builtinCode, code.deprecatedBuiltinCode)
            tensors = [graph.tensors[i] for i in operator.inputs if i >= 0]
            if kind == schema.BuiltinOperator.DEQUANTIZE or not tensors:
                continue
            if tensors[0].type != schema.TensorType.FLOAT32 and kind != schema.BuiltinOperator.TRANSPOSE_CONV:
                continue
            for tensor in tensors[1:]:
                data = model.buffers[tensor.buffer].data
                if tensor.type not in NARROW or data is None or tensor.quantization is None:
                    continue
                numbers = integers_of(tensor, np.asarray(data, np.uint8)) * scales_of(graph, model, tensor)
                buffer = schema.BufferT()
                buffer.data = np.frombuffer(numbers.astype(np.float32).tobytes(), np.uint8)
                model.buffers.append(buffer)
                tensor.buffer, tensor.type = len(model.buffers) - 1, schema.TensorType.FLOAT32
                tensor.quantization = None
                found = True
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(bytes(builder.Output()))
    return found


def run_litert(path, resolver, is_open, factor):
    """Names and values of the inputs, and the outputs' details and values; None and the reason where it does not run.
    `is_open`: the last axis of inputs gets OPEN_AXIS elements where the model leaves it open."""
    try:
        interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
        for detail in interpreter.get_input_details() if is_open else []:
            if len(detail["shape"]) and detail["shape_signature"][-1] == -1:
                interpreter.resize_tensor_input(detail["index"], [*detail["shape"][:-1], OPEN_AXIS])
        interpreter.allocate_tensors()
        details = interpreter.get_input_details()
        values = inputs_for(details)
        values = [value * factor if np.issubdtype(value.dtype, np.floating) else value for value in values]
        for detail, value in zip(details, values, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        return None, str(error).splitlines()[0]
    outputs = [(d, interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
    return [d["name"] for d in details], values, outputs


def distance(wanted, made, is_quantized):
    """Whether it is right, and in words how far it is off."""
    if wanted.shape != made.shape or wanted.dtype != made.dtype:
        return False, "another type or shape"
    if np.issubdtype(wanted.dtype, np.floating):
        finite = np.isfinite(wanted)
        if not np.array_equal(wanted[~finite], made[~finite], equal_nan=True):
            return False, "other infinities"
        seen = np.append(wanted[finite].astype(np.float64), 0 if finite.sum() < 2 else wanted[finite][0])
        off = np.max(np.abs(made[finite].astype(np.float64) - wanted[finite]), initial=0)
        off /= max(np.ptp(seen), 1e-6)
        return off <= TOLERANCE, f"{off:.1e}"
    apart = np.abs(wanted.astype(np.int64) - made.astype(np.int64))
    share = float(np.mean(apart <= (STEPS if is_quantized else 0))) if apart.size else 1.0
    return share >= LEAST_SHARE, f"{share:.2%}"


def compared(path, session, resolver, is_open=False, factor=np.float32(1)):
    """As distance(), of the worst output; None where LiteRT does not run the model."""
    ran = run_litert(path, resolver, is_open, factor)
    if ran[0] is None:
        return None, ran[1]
    names, values, outputs = ran
    known = {port.name for port in session.get_inputs()}
    feed = {name: value for name, value in zip(names, values, strict=True) if name in known}
    made = dict(zip([port.name for port in session.get_outputs()], session.run(None, feed), strict=True))
    verdicts = [distance(value, made[d["name"]], d["quantization"][0] != 0) for d, value in outputs]
    return min(verdicts, key=lambda verdict: verdict[0])


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Else int8 becomes uint8, whose products saturate on x86 processors without VNNI.
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def judged(source, folder):
    """(converted, agrees, cells): of the columns XNNPACK, built-in kernels, note."""
    output = folder / "made.onnx"
    done = converter.run("convert", source, "-o", output, "--quiet")
    notes = []
    if done.returncode:
        reason = done.stderr.replace(str(source.parent) + "/", "").strip()
        done = converter.run("convert", source, "-o", output, "--quiet", "--custom-ops", "allow")
        reason = reason.split(": ")[-1].split(";")[0].removesuffix(" [unsupported]").removesuffix(" [malformed]")
        return False, False, ["", "", reason + ("; converts with `--custom-ops allow`" if not done.returncode else "")]
    onnx.checker.check_model(str(output), full_check=True)
    session = session_of(output)
    copy = folder / "floats.tflite"
    is_hybrid = float_copy(source, copy)
    if is_hybrid:
        notes.append("hybrid: compared with its copy in floats")
    judge = copy if is_hybrid else source
    resolvers = (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)

    def both(**how):
        return [compared(judge, session, resolver, **how) for resolver in resolvers]

    (right, xnnpack), (right_plain, plain) = both()
    if right is None and right_plain is None:
        (opened, some), (opened_plain, some_plain) = both(is_open=True)
        if opened is not None:
            right, xnnpack, right_plain, plain = opened, some, opened_plain, some_plain
            notes.append(f"its open axis of {OPEN_AXIS}: LiteRT does not run the default shape")
    if right is not None and not right and xnnpack in ("inf", "other infinities"):
        (right, xnnpack), (right_plain, plain) = both(factor=np.float32(0.25))
        notes.append("inputs a quarter as large: larger ones overflow in one runtime and not in the other")
    if right is None:  # LiteRT with XNNPACK does not run it
        return True, bool(right_plain), ["", plain if right_plain is not None else "", f"LiteRT: {xnnpack}"]
    if not right:
        count, bad = by_operator.judge_model(source)
        notes.append(f"operator by operator: {count} tensors, {len(bad)} outside their limit")
        right = not bad
    return True, right, [xnnpack, plain, "; ".join(notes)]


def loaded(python, name, sources, folder):
    """Of which sources ONNX Runtime loads what the other converter writes."""
    outputs = [folder / f"{source.stem}.{name}.onnx" for source in sources]
    pairs = [str(path) for pair in zip(sources, outputs, strict=True) for path in pair]
    subprocess.run([python, "-c", OTHERS[name] + EACH, str(LIMIT), *pairs], capture_output=True, cwd=folder)
    out = []
    for path in outputs:
        try:
            session_of(path)
            out.append(True)
        except Exception:
            out.append(False)
    return out


def table(args):
    rows, counts = [], dict.fromkeys(["converted", "agree", *OTHERS], 0)
    sources = sorted(pathlib.Path(args.folder).resolve().glob("*.tflite"))
    theirs = [[False] * len(sources)] * len(OTHERS)
    if args.others:
        with tempfile.TemporaryDirectory(prefix="lowtide-way-back-") as name:
            theirs = [loaded(args.others, one, sources, pathlib.Path(name)) for one in OTHERS]
    for source, *others in zip(sources, *theirs, strict=True):
        with tempfile.TemporaryDirectory(prefix="lowtide-way-back-") as name:
            converted, agrees, cells = judged(source, pathlib.Path(name))
        counts["converted"] += converted
        counts["agree"] += agrees
        for one, ok in zip(OTHERS, others, strict=True):
            counts[one] += bool(ok)
        words = ["yes" if agrees else "converted" if converted else "no", *("yes" if ok else "no" for ok in others)]
        rows.append(f"| {source.stem} | {' | '.join([*words, *cells])} |")
        print(rows[-1], flush=True)
    total = f"| of {len(rows)} | {counts['agree']} | {' | '.join(str(counts[one]) for one in OTHERS)} | | | |"
    print(total, f"converted: {counts['converted']}")
    if args.write:
        head = f"| model | agrees | {' | '.join(OTHERS)} | XNNPACK | built-in kernels | |"
        line = "|---" * (5 + len(OTHERS)) + "|"
        write(pathlib.Path(args.write), BEGIN, END, "\n".join([head, line, *rows, total]))
    return 0


def large(args):
    folder = pathlib.Path(args.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model, source = folder / "way-back.onnx", folder / f"way-back-{args.size}.tflite"
    if not source.exists():
        made = [LOWTIDE, "make-model", "matmul-stack", "--size", args.size, "--external", "--quiet", "-o", model]
        subprocess.run(made, check=True)
        subprocess.run([LOWTIDE, "convert", model, "-o", source, "--quiet"], check=True)
        for path in (model, model.with_name(model.name + ".data")):
            path.unlink(missing_ok=True)
    made, data, copied = folder / "made.onnx", folder / "made.onnx.data", folder / "copied"

    convert = [LOWTIDE, "convert", source, "-o", made, "--external-data", "--quiet"]
    print(f"{source.stat().st_size / 1e9:.2f} GB; {machine(folder)}")
    order, times = random.Random(args.seed), {"cp": [], "convert": []}
    for _ in range(args.rounds):
        names = list(times)
        order.shuffle(names)
        for name in names:
            command, outputs = (["cp", source, copied], [copied]) if name == "cp" else (convert, [made, data])
            times[name].append(run_once(command, outputs, [source], False))
            print(f"  {name}: {times[name][-1][0]:.2f} s, {times[name][-1][1]:.2f} s of CPU", flush=True)
            copied.unlink(missing_ok=True)
    least = [min(wall for wall, _ in times[name]) for name in ("convert", "cp")]
    median = statistics.median(a[0] / b[0] for a, b in zip(times["convert"], times["cp"], strict=True))
    cpu = [min(cpu for _, cpu in times[name]) for name in ("convert", "cp")]
    print(
        f"least: {least[0] / least[1]:.2f} times cp; median of rounds: {median:.2f}; CPU {cpu[0]:.2f} and {cpu[1]:.2f} s"
    )
    print(f"peak RSS: {peak_rss(convert):.1f} MiB")

    session = session_of(made)
    feed = {
        p.name: np.ones([d if isinstance(d, int) else 1 for d in p.shape], np.float32) for p in session.get_inputs()
    }
    (result, *_) = session.run(None, feed)
    print(f"ONNX Runtime: {result.shape}, finite: {bool(np.isfinite(result).all())}")
    return 0


def peak_rss(command):
    """What the program says: the figure that the kernel gives of a child may be its parent's."""
    command = [part for part in command if part != "--quiet"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.search(r"peak RSS ([0-9.]+) MiB", done.stdout + done.stderr)[1])


def main():
    parser = argparse.ArgumentParser(description="TFLite to ONNX compared with other converters and with cp.")
    ways = parser.add_subparsers(dest="way", required=True)
    one = ways.add_parser("table")
    one.add_argument("--folder", default=ROOT.parent / "shared/models/tflite")
    one.add_argument("--others", help="a Python that has tf2onnx and tflite2onnx")
    one.add_argument("--write", help="the page that gets the table")
    one = ways.add_parser("large")
    one.add_argument("--size", default="4G")
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--folder", default=ROOT / "build/bench")
    args = parser.parse_args()
    return {"table": table, "large": large}[args.way](args)


if __name__ == "__main__":
    sys.exit(main())
