# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that the files in schemas/ use."""

import re

_TYPES = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "array": list,
    "object": dict,
    "number": (int, float),
    "null": type(None),
}
_KNOWN = {
    "$schema",
    "title",
    "description",
    "type",
    "minimum",
    "maximum",
    "enum",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "oneOf",
    "const",
    "pattern",
    "exclusiveMinimum",
    "minItems",
    "maxItems",
}


def faults(value, schema, place="report"):
    """What is wrong with the value, a line each; nothing when it is as the schema says."""
    assert schema.keys() <= _KNOWN, schema.keys() - _KNOWN
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{place} is not of type {kind}"]
    found = []
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{place} is {value}, less than {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        found.append(f"{place} is {value}, more than {schema['maximum']}")
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        found.append(f"{place} is {value}, not more than {schema['exclusiveMinimum']}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{place} is {value!r}, not {schema['const']!r}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place} is {value!r}, which is not {schema['pattern']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} is {value!r}, which is not one of {schema['enum']}")
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        found.append(f"{place} has {len(value)} items")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += faults(item, schema["items"], f"{place}[{i}]")
    if isinstance(value, dict):
        found += [f"{place} has no {name}" for name in schema.get("required", []) if name not in value]
        for name, rule in schema.get("properties", {}).items():
            if name in value:
                found += faults(value[name], rule, f"{place}.{name}")
        if isinstance(schema.get("additionalProperties"), dict):
            for name in value.keys() - schema.get("properties", {}).keys():
                found += faults(value[name], schema["additionalProperties"], f"{place}.{name}")
        if schema.get("additionalProperties") is False:
            found += [f"{place} has an unknown {name}" for name in value.keys() - schema["properties"].keys()]
    if "oneOf" in schema:
        fitting = sum(not faults(value, form, place) for form in schema["oneOf"])
        if fitting != 1:
            found.append(f"{place} fits {fitting} of the {len(schema['oneOf'])} forms")
    return found
