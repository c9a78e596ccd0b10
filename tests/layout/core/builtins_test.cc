// SPDX-License-Identifier: Apache-2.0
// The rows of the builtins: none is missing, none is there twice, and none contradicts itself.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"

namespace lowtide::core {
namespace {

constexpr Kind kBuiltins[] = {
#define LOWTIDE_KIND(schema_name, enumerator, code) Kind::enumerator,
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
};
// Kinds of ops that exist only between two passes: they have no place in a file.
constexpr Kind kIntermediate[] = {Kind::kErf, Kind::kTensorList, Kind::kChannelsFirst};

// Whether a row can be made without a field.
template <typename T>
concept MadeOfNothing = requires {
  T{};
};
template <typename Row>
concept MadeWithoutFold = requires(Infer infer, Commute commute, Rewrite rewrite) {
  Row{.kind = Kind::kAbs, .infer = infer, .commute = commute, .rewrite = rewrite};
};
static_assert(!MadeOfNothing<Builtin>);
static_assert(!MadeWithoutFold<Builtin>);
static_assert(!MadeOfNothing<Roles> && !MadeOfNothing<Required<bool>> && !MadeOfNothing<Weights>);

TEST(Builtins, EachKindHasOneRow) {
  std::map<Kind, int> rows;
  for (const Builtin* row : all_builtins()) ++rows[row->kind];
  std::set<Kind> kinds(std::begin(kBuiltins), std::end(kBuiltins));
  EXPECT_EQ(kinds.size(), std::size(kBuiltins));
  kinds.insert(std::begin(kIntermediate), std::end(kIntermediate));
  for (Kind kind : kinds) EXPECT_EQ(rows[kind], 1) << kind_name(kind);
  for (const auto& [kind, count] : rows) EXPECT_TRUE(kinds.contains(kind)) << kind_name(kind);
  EXPECT_ANY_THROW(builtin(Kind::kDead));
}

// Legalise does not judge a kernel that was not measured, so that each of these needs a reason.
TEST(Builtins, KernelsAreMeasured) {
  std::set<std::string> unmeasured;
  for (Kind kind : kBuiltins)
    if (!kernel_limits(kind)) unmeasured.emplace(kind_name(kind));
  // Control flow takes what its graphs take, CUSTOM what its kernel takes; those with states are written as a TFLite
  // model had them; the others are built with fixed types.
  EXPECT_EQ(unmeasured,
            (std::set<std::string>{"BROADCAST_ARGS", "CUSTOM", "IF", "LSTM", "NON_MAX_SUPPRESSION_V4", "RNN", "SVDF",
                                   "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "WHILE"}));
}

TEST(Builtins, RowsDoNotContradictThemselves) {
  for (const Builtin* row : all_builtins()) {
    SCOPED_TRACE(kind_name(row->kind));
    EXPECT_NE(*row->infer, nullptr);
    if (*row->commute == kFixed) {
      EXPECT_EQ(*row->rewrite, kNothingToRewrite);
    }
    if (row->is_elementwise()) {
      EXPECT_EQ(*row->memory, Memory::kMayOverwrite);
    }
    if (row->broadcasts) {
      EXPECT_TRUE(row->is_elementwise());
    }
    if (*row->numbers == Numbers::kMoved) {
      EXPECT_TRUE(*row->keeps_infinities);
    }
    if (*row->memory == Memory::kSharesInput) {
      EXPECT_EQ(row->inputs[0], Role::kData);
    }
    if (*row->exact_input != kNone) {
      EXPECT_EQ(row->inputs[static_cast<size_t>(*row->exact_input)], Role::kData);
    }
    if (const Weights* weights = row->weights) {
      for (size_t input : {*weights->data, *weights->weights, *weights->bias}) {
        EXPECT_EQ(row->inputs[input], Role::kData);
      }
    }
  }
}

TEST(Builtins, ActivationsAreReadAndSet) {
  Op op{.kind = Kind::kConv2d, .inputs = {}, .outputs = {}, .options = Conv2dOptions{}};
  fuse_activation(op, Activation::kRelu6);
  EXPECT_EQ(fused_activation(op), Activation::kRelu6);
  EXPECT_EQ(std::get<Conv2dOptions>(op.options).activation, Activation::kRelu6);
  EXPECT_EQ(fused_activation({.kind = Kind::kTanh, .inputs = {}, .outputs = {}, .options = {}}), Activation::kNone);
}

}  // namespace
}  // namespace lowtide::core
