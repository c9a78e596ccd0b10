// The one table of ONNX operators: alphabetical within a domain, one row an operator, naming its function in
// lower/<family>.cc. Old opset forms end in the same function.
#include <algorithm>
#include <array>
#include <tuple>

#include "layout/lowering.h"

namespace lowtide::layout {

// domain, operator, fewest inputs, most inputs (-1: any number), most outputs (-1: any number), function
#define LOWTIDE_LOWERINGS(ROW) ROW("", "Identity", 1, 1, 1, lower_identity)

#define DECLARE(domain, op, min_in, max_in, max_out, function) void function(Lowering&);
LOWTIDE_LOWERINGS(DECLARE)
#undef DECLARE

namespace {

#define AS_ROW(domain, op, min_in, max_in, max_out, function) LowerRow{domain, op, min_in, max_in, max_out, function},
constexpr std::array kRows = {LOWTIDE_LOWERINGS(AS_ROW)};
#undef AS_ROW

constexpr auto key(const LowerRow& row) { return std::tuple(row.domain, row.op); }
constexpr bool sorted_and_unique() {
  for (size_t i = 1; i < kRows.size(); ++i)
    if (!(key(kRows[i - 1]) < key(kRows[i]))) return false;
  return true;
}
static_assert(sorted_and_unique(), "rows are searched by bisection");

}  // namespace

const LowerRow* find_lowering(std::string_view domain, std::string_view op) {
  auto it = std::lower_bound(kRows.begin(), kRows.end(), std::tuple(domain, op),
                             [](const LowerRow& row, const auto& wanted) { return key(row) < wanted; });
  return it != kRows.end() && key(*it) == std::tuple(domain, op) ? &*it : nullptr;
}

}  // namespace lowtide::layout
