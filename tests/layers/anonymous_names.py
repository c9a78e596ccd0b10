# SPDX-License-Identifier: Apache-2.0
"""Names that C++ sources define in anonymous namespaces.

Sources are compiled in batches, and a batch is one translation unit: two files that define the same name in an anonymous
namespace do not compile together, or, worse, one calls the other's function. This reads C++ as far as it takes to find such
names: it knows comments, literals, braces and the heads of declarations, and no types.
"""

import re

COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace(?:\s+([\w:]+))?$")
TYPE = re.compile(r"(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)\s*(?!\w*[(<])")
ALIAS = re.compile(r"(?:using|namespace)\s+(\w+)\s*=(.*)", re.DOTALL)


def without_text(source):
    """The source without comments, directives, and the contents of literals."""
    source = COMMENT_OR_LITERAL.sub(lambda found: " " if found[0][0] == "/" else '""', source)
    return DIRECTIVE.sub("", source)


def without_angles(text):
    """Without what is between < and >, as far as they are brackets: enough for heads of declarations."""
    while (shorter := re.sub(r"<[^<>;{}]*>", "", text)) != text:
        text = shorter
    return text


def names_of(head):
    """Name and meaning of what a declaration defines, from its text up to its body or its end. The meaning of an alias is
    what it stands for, because two equal ones are one; that of everything else is empty."""
    if head.strip().startswith(("using ", "namespace ")):
        alias = ALIAS.match(head.strip())
        return [(alias[1], " ".join(alias[2].split()))] if alias else []
    head = without_angles(
        re.sub(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)(?=\W)|alignas\s*\([^)]*\)", " ", head)
    ).strip()
    head = re.sub(r"^(?:template\s+)+", "", head)
    if head.startswith(("static_assert", "friend ", "extern ")):
        return []
    declared = re.match(r"[^=({\[]*", head.replace("operator", "("))[0].strip()
    type_name = TYPE.match(declared)
    if type_name and "(" not in head:
        return [(type_name[1], "")]
    found = re.search(r"(::\s*)?\b(\w+)$", declared)
    # Members defined outside of their class, macros, and words alone are not definitions of a name of the namespace.
    if not found or found[1] or found[2].isupper() or found[0] == declared:
        return []
    return [(found[2], ""), *((name, "") for name in re.findall(r",\s*(\w+)\s*=", re.sub(r"\(.*\)", "", head)))]


def defined_names(source):
    """(enclosing namespace, name, meaning) of what is defined directly in anonymous namespaces. Types that are only
    declared are not."""
    text, names = without_text(source), set()
    scopes, head, parentheses, inner = [], "", 0, 0  # inner: braces that are open in a body

    def define():
        if scopes and scopes[-1] == "":
            names.update(("::".join(filter(None, scopes)), *name) for name in names_of(head))

    for token in re.finditer(r"[^{}();]+|.", text):
        token = token[0]
        if inner:
            inner += {"{": 1, "}": -1}.get(token, 0)
            if inner == 0 and parentheses == 0 and re.search(r"\)[^=]*$", without_angles(head)):
                define()
                head = ""  # the end of a function; a type or value ends with its ;
            continue
        if token == "{" and not parentheses and (opened := NAMESPACE.search(head.strip())):
            scopes.append(opened[1] or "")
            head = ""
        elif token == "{":
            inner = 1
            head += "" if parentheses else " {"
        elif token == "}":
            scopes = scopes[:-1]
            head = ""
        elif token == ";" and not parentheses:
            is_declared_only = TYPE.match(head.strip()) and "{" not in head
            if not is_declared_only:
                define()
            head = ""
        else:
            parentheses += {"(": 1, ")": -1}.get(token, 0)
            head += token
    return names
