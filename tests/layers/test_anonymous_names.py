# SPDX-License-Identifier: Apache-2.0
"""The names that the rule `anonymous_names_are_of_one_file` sees in C++."""

import pytest

from tests.layers.anonymous_names import defined_names


def names(body):
    source = f'#include "a.h"\nnamespace a::b {{\nnamespace {{\n{body}\n}}  // namespace\nint outside() {{ return 1; }}\n}}\n'
    return {name for _, name, _ in defined_names(source)}


@pytest.mark.parametrize(
    "body, expected",
    [
        ("int f(int x) { if (x) { return 1; } return 2; }\nint g();", {"f", "g"}),
        ('constexpr int kA = 1, kB = 2;  // kC = 3\nconst char* g_text = "{ int h() {} }";', {"kA", "kB", "g_text"}),
        ("struct S { int member = 1; void method() {} };\nstruct Declared;", {"S"}),
        ("enum class E : int { kOne, kTwo };\nclass C final : public D { int x_; };", {"E", "C"}),
        ("template <typename T, typename = void>\nstd::map<int, T> f(std::vector<T> v = {}) { return {}; }", {"f"}),
        ("std::array<std::atomic<int>, 4> g_a{};\nstd::mutex g_b;", {"g_a", "g_b"}),
        ("const std::array kRows = {Row{1}, Row{2}};\nauto f = [](int x) { return x; };", {"kRows", "f"}),
        ("void S::method() { g(); }\nMACRO(x)\nstatic_assert(sizeof(int) == 4);", set()),
        ('/* int f() {} */\n#define G(x) \\\n  int x() {}\nconst char* kRaw = R"(int h() {})";', {"kRaw"}),
        ('__attribute__((target("avx2"))) void f(int* p, const int (&q)[4]) { *p = q[0]; }', {"f"}),
    ],
)
def test_names_of_definitions(body, expected):
    assert names(body) == expected


def test_namespace_and_meaning_of_aliases():
    text = "namespace a {\nnamespace {\nusing T = std::vector<int>;\nnamespace n = x::y;\n}\n}\nnamespace {\nusing T = int;\n}\n"
    assert defined_names(text) == {("a", "T", "std::vector<int>"), ("a", "n", "x::y"), ("", "T", "int")}
