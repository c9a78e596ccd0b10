// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/operators.h"

#include <algorithm>
#include <iterator>

#include "layout/lower/table.h"

namespace lowtide::layout {
namespace {

struct BecomesRow {
  std::string_view domain, op, builtins;  // separated by spaces
};
#define ROW(domain, op, builtins) BecomesRow{domain, op, builtins},
constexpr BecomesRow kBecomes[] = {
#include "layout/lower/becomes.inc"
};
#undef ROW

std::vector<std::string_view> divided_names(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    out.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return out;
}

std::optional<int> limit(int most) { return most < 0 ? std::nullopt : std::optional(most); }

KnownOperator known(const LowerRow& row) {
  KnownOperator out{.domain = row.domain,
                    .op = row.op,
                    .since = 1,
                    .min_inputs = row.min_inputs,
                    .max_inputs = limit(row.max_inputs),
                    .max_outputs = limit(row.max_outputs),
                    .attributes = {},
                    .builtins = {}};
  if (row.domain.empty()) {
    out.since = since_version(row.op);
    out.attributes = attributes_since(row.op);
  }
  const auto* found = std::find_if(std::begin(kBecomes), std::end(kBecomes), [&](const BecomesRow& becomes) {
    return becomes.domain == row.domain && becomes.op == row.op;
  });
  if (found != std::end(kBecomes)) out.builtins = divided_names(found->builtins);
  return out;
}

}  // namespace

std::vector<KnownOperator> known_operators() {
  std::vector<KnownOperator> out;
  for (const LowerRow& row : lowerings()) out.push_back(known(row));
  return out;
}

}  // namespace lowtide::layout
