# SPDX-License-Identifier: Apache-2.0
"""The rules of a description of TFLite operators (schemas/builtin_target.schema.json), for a form of one operator."""

_NAMES = {"F32": "f32", "I32": "i32", "I64": "i64", "BOOL": "bool", "I8": "i8", "U8": "u8", "F16": "f16"}


def _within(span, number):
    return span[0] <= number <= span[1]


def _misfit(rule, tensor, result):
    shape = tensor.value.shape
    if "rank" in rule and not _within(rule["rank"], len(shape)):
        return "rank"
    if "dtypes" in rule and _NAMES.get(tensor.dtype, tensor.dtype) not in rule["dtypes"]:
        return "dtypes"
    if "constant" in rule and rule["constant"] != tensor.fixed:
        return "constant"
    if "extents" in rule and (len(shape) != len(rule["extents"]) or not all(map(_within, rule["extents"], shape))):
        return "extents"
    if "elements" in rule and tensor.fixed and not all(_within(rule["elements"], n) for n in tensor.value.ravel()):
        return "elements"
    if rule.get("like_output") and shape != result.value.shape and tensor.value.size != 1:
        return "like_output"
    return None


def _broken(rule, inputs, outputs, version):
    """The condition that the operator does not meet, or None."""
    if "result_rank" in rule and not _within(rule["result_rank"], outputs[0].value.ndim):
        return None
    if "version" in rule and not _within(rule["version"], version):
        return "version"
    computed = [t for t in inputs if t is not None and not t.fixed]
    if "computed_inputs" in rule and not _within(rule["computed_inputs"], len(computed)):
        return "computed_inputs"
    if rule.get("different_inputs") and len({id(t) for t in inputs}) != len(inputs):
        return "different_inputs"
    meant = rule.get("inputs", rule.get("outputs"))
    if meant is None:
        return None
    operands = inputs if "inputs" in rule else outputs
    if meant == "computed":
        operands = computed
    elif meant != "each":
        operands = operands[meant : meant + 1]
    return next(filter(None, (_misfit(rule, t, outputs[0]) for t in operands if t is not None)), None)


def refusal(description, op, inputs, outputs, version):
    """Why the target does not take the operator; None: it does."""
    if op not in description["operators"]:
        return "not listed"
    for rule in [*description["operators"][op], *description["every"]]:
        if condition := _broken(rule, inputs, outputs, version):
            return f"{condition}: {rule.get('says', '')}"
    return None
