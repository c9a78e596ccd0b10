// The one table of ONNX operators: alphabetical within a domain, one row an operator, naming its function in
// lower/<family>.cc. Old opset forms end in the same function.
#include <algorithm>
#include <array>
#include <tuple>

#include "layout/lowering.h"

namespace lowtide::layout {

// domain, operator, fewest inputs, most inputs (-1: any number), most outputs (-1: any number), function
// clang-format off
#define LOWTIDE_LOWERINGS(ROW) \
  ROW("", "AveragePool", 1, 1, 1, lower_average_pool) \
  ROW("", "BatchNormalization", 5, 5, 5, lower_batch_normalization) \
  ROW("", "Conv", 2, 3, 1, lower_conv) \
  ROW("", "ConvTranspose", 2, 3, 1, lower_conv_transpose) \
  ROW("", "DepthToSpace", 1, 1, 1, lower_depth_to_space) \
  ROW("", "Gemm", 2, 3, 1, lower_gemm) \
  ROW("", "GlobalAveragePool", 1, 1, 1, lower_global_average_pool) \
  ROW("", "GlobalLpPool", 1, 1, 1, lower_global_lp_pool) \
  ROW("", "GlobalMaxPool", 1, 1, 1, lower_global_max_pool) \
  ROW("", "GroupNormalization", 3, 3, 1, lower_group_normalization) \
  ROW("", "Identity", 1, 1, 1, lower_identity) \
  ROW("", "If", 1, 1, -1, lower_if) \
  ROW("", "InstanceNormalization", 3, 3, 1, lower_instance_normalization) \
  ROW("", "LRN", 1, 1, 1, lower_lrn) \
  ROW("", "LayerNormalization", 2, 3, 3, lower_layer_normalization) \
  ROW("", "Loop", 2, -1, -1, lower_loop) \
  ROW("", "LpNormalization", 1, 1, 1, lower_lp_normalization) \
  ROW("", "LpPool", 1, 1, 1, lower_lp_pool) \
  ROW("", "MatMul", 2, 2, 1, lower_matmul) \
  ROW("", "MaxPool", 1, 1, 2, lower_max_pool) \
  ROW("", "MeanVarianceNormalization", 1, 1, 1, lower_mean_variance_normalization) \
  ROW("", "RMSNormalization", 2, 2, 1, lower_rms_normalization) \
  ROW("", "Resize", 1, 4, 1, lower_resize) \
  ROW("", "Scan", 1, -1, -1, lower_scan) \
  ROW("", "SpaceToDepth", 1, 1, 1, lower_space_to_depth) \
  ROW("", "Upsample", 1, 2, 1, lower_upsample)
// clang-format on

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
