// SPDX-License-Identifier: Apache-2.0
#include "emit/builtins/table.h"

#include <array>
#include <charconv>

#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// "2.13.0" as numbers, so that 2.9.0 is older than 2.13.0.
std::array<int, 3> version_numbers(std::string_view version) {
  std::array<int, 3> out{};
  const char* at = version.data();
  const char* end = at + version.size();
  for (int& number : out) {
    at = std::from_chars(at, end, number).ptr;
    if (at < end) ++at;
  }
  return out;
}

}  // namespace

OptionsTable options_table(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  return builtin_form(op.kind).options(fbb, graph, op);
}

int op_version(const Graph& graph, const Op& op) { return builtin_form(op.kind).version(OperandTypes(graph, op)); }

std::string_view first_runtime(Kind kind, int version) { return builtin_form(kind).runtimes.of(version); }

std::string_view newer_runtime(std::string_view a, std::string_view b) {
  return version_numbers(a) < version_numbers(b) ? b : a;
}

}  // namespace lowtide::emit
