// SPDX-License-Identifier: Apache-2.0
// How builtins are written: no row is missing, none is there twice; which versions ops need.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "emit/builtins/row.h"
#include "emit/builtins/table.h"
#include "tests/emit/models.h"

namespace lowtide::emit {
namespace {

constexpr Kind kBuiltins[] = {
#define LOWTIDE_KIND(schema_name, enumerator, code) Kind::enumerator,
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
};

template <typename Row>
concept MadeOfNothing = requires {
  Row{};
};
template <typename Row>
concept MadeWithoutVersion = requires {
  Row{.kind = Kind::kAbs, .options = no_table, .runtimes = {"1.5.0"}};
};
static_assert(!MadeOfNothing<BuiltinForm> && !MadeWithoutVersion<BuiltinForm> && !MadeOfNothing<Runtimes>);

TEST(BuiltinForms, EachKindHasOneRow) {
  std::map<Kind, int> rows;
  for (const BuiltinForm* row : all_builtin_forms()) ++rows[row->kind];
  const std::set<Kind> kinds(std::begin(kBuiltins), std::end(kBuiltins));
  for (Kind kind : kinds) EXPECT_EQ(rows[kind], 1) << core::kind_name(kind);
  for (const auto& [kind, count] : rows) EXPECT_TRUE(kinds.contains(kind)) << core::kind_name(kind);
  EXPECT_ANY_THROW(builtin_form(Kind::kErf));
  EXPECT_ANY_THROW(builtin_form(Kind::kDead));
}

// The version of an op of one output, given types and shapes of its inputs.
struct In {
  DType dtype;
  core::Shape shape;
};
int version(Kind kind, const std::vector<In>& inputs, core::Options options, DType result) {
  Made m;
  std::vector<core::ValueId> ids;
  for (const In& in : inputs) ids.push_back(m.graph->add_value(in.dtype, in.shape));
  m.op(kind, ids, std::move(options), result, {1});
  return op_version(*m.graph, m.graph->ops.at(0));
}

TEST(OpVersions, DependOnOptions) {
  core::Conv2dOptions dilated{.dilation_w = 2};
  EXPECT_EQ(version(Kind::kDepthwiseConv2d, {{kF32, {1, 5, 7, 3}}, {kF32, {1, 2, 2, 3}}}, dilated, kF32), 2);
  core::TransposeConvOptions plain, relu{.activation = core::Activation::kRelu};
  std::vector<In> inputs = {{kI32, {4}}, {kF32, {4, 2, 2, 3}}, {kF32, {1, 5, 7, 3}}};
  EXPECT_EQ(version(Kind::kTransposeConv, inputs, plain, kF32), 1);
  EXPECT_EQ(version(Kind::kTransposeConv, inputs, relu, kF32), 4);
  core::FullyConnectedOptions keep{.keep_num_dims = true};
  EXPECT_EQ(version(Kind::kFullyConnected, {{kF32, {5}}, {kF32, {3, 5}}, {kF32, {3}}}, keep, kF32), 5);
  EXPECT_EQ(version(Kind::kFullyConnected, {{kF32, {5}}, {kF32, {3, 5}}}, keep, kF32), 6);
  EXPECT_EQ(version(Kind::kResizeBilinear, {{kF32, {1, 2, 3, 4}}, {kI32, {2}}}, core::ResizeOptions{false, true}, kF32),
            3);
}

TEST(OpVersions, DependOnTypeAndRank) {
  EXPECT_EQ(version(Kind::kAdd, {{kI64, {3}}, {kI64, {3}}}, core::BinaryOptions{}, kI64), 4);
  EXPECT_EQ(version(Kind::kSub, {{kF32, {2, 3, 4, 5, 6}}, {kF32, {6}}}, core::BinaryOptions{}, kF32), 3);
  EXPECT_EQ(version(Kind::kTranspose, {{kF32, {2, 3, 4, 5, 6}}, {kI32, {5}}}, core::NoOptions{}, kF32), 4);
  EXPECT_EQ(version(Kind::kSplit, {{kI32, {}}, {kI32, {6}}}, core::SplitOptions{2}, kI32), 3);
  EXPECT_EQ(version(Kind::kBroadcastTo, {{kF32, {1}}, {kI32, {1}}}, core::NoOptions{}, kF32), 2);
  EXPECT_EQ(version(Kind::kCast, {{kI8, {3}}}, core::NoOptions{}, kF32), 3);
  // Only the shapes say that a convolution is grouped.
  EXPECT_EQ(version(Kind::kConv2d, {{kF32, {1, 5, 7, 6}}, {kF32, {4, 2, 2, 3}}}, core::Conv2dOptions{}, kF32), 6);
}

TEST(OpVersions, OfQuantizedWeights) {
  auto with_scales = [](Kind kind, DType data, DType weights, core::Shape shape, core::Options options, size_t scales) {
    Made m;
    const core::ValueId x = m.graph->add_value(data, {7, 5}), w = m.graph->add_value(weights, std::move(shape));
    m.graph->at(w).quantization = core::Quantization{std::vector<float>(scales, 1), std::vector<int64_t>(scales, 0), 0};
    m.op(kind, {x, w, m.graph->add_value(kF32, {3})}, std::move(options), kF32, {7, 3});
    return op_version(*m.graph, m.graph->ops.at(0));
  };
  core::FullyConnectedOptions keep{.keep_num_dims = true};
  EXPECT_EQ(with_scales(Kind::kFullyConnected, kF32, kI8, {3, 5}, keep, 3), 12);
  EXPECT_EQ(with_scales(Kind::kFullyConnected, kF32, kI4, {3, 5}, keep, 3), 12);
  EXPECT_EQ(with_scales(Kind::kFullyConnected, kF32, kI4, {1, 5}, keep, 1), 12);
  EXPECT_EQ(with_scales(Kind::kEmbeddingLookup, kI32, kI8, {3, 5}, core::NoOptions{}, 3), 4);
  EXPECT_EQ(with_scales(Kind::kEmbeddingLookup, kI32, kI8, {1, 5}, core::NoOptions{}, 1), 3);
  EXPECT_EQ(with_scales(Kind::kEmbeddingLookup, kI32, kI4, {1, 6}, core::NoOptions{}, 1), 4);
  EXPECT_EQ(first_runtime(Kind::kEmbeddingLookup, 4), "2.18.0");
}

TEST(RuntimeVersions, CompareByNumber) {
  EXPECT_EQ(newer_runtime("2.9.0", "2.13.0"), "2.13.0");
  EXPECT_EQ(newer_runtime("1.15.0", "2.1.0"), "2.1.0");
  EXPECT_EQ(newer_runtime("", "1.5.0"), "1.5.0");
  EXPECT_EQ(first_runtime(Kind::kConv2d, 6), "2.9.0");
  EXPECT_EQ(first_runtime(Kind::kBroadcastTo, 1), "");
  EXPECT_EQ(first_runtime(Kind::kConv2d, 99), "");
}

}  // namespace
}  // namespace lowtide::emit
