// SPDX-License-Identifier: Apache-2.0
// Ops that move elements: a movement that commute allows, done by rewrite, must give the same tensor, permuted. And
// what is known of shape tensors whose elements are symbols.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;

class MovementTest : public testing::Test {
 protected:
  stream::Budget budget{64 << 20};
  Symbols symbols;
  Graph graph{symbols, budget};
  Builder b{graph};

  Val numbered(Shape shape) {
    auto count = static_cast<int64_t>(stream::element_count(shape));
    return b.constant(recipe::reshape(recipe::iota(0, 1, DType::kInt32, count), std::move(shape)));
  }
  Val list(std::vector<int64_t> elements) { return b.i32(elements); }
  Val table(std::vector<int64_t> elements) {
    return {graph.add_ints(elements, DType::kInt32, {static_cast<Dim>(elements.size() / 2), 2})};
  }

  std::vector<RecipeRef> folded(Kind kind, const std::vector<ValueId>& inputs, const Options& options, int outputs) {
    return builtin(kind).fold({graph, kind, inputs, options, outputs});
  }

  // Tries every permutation of every slot; returns how many the op passes.
  int check(Kind kind, std::vector<Val> vals, Options options = {}, int output_count = 1) {
    const Builtin& row = builtin(kind);
    std::vector<ValueId> inputs;
    for (Val v : vals) inputs.push_back(v.id);
    const std::vector<RecipeRef> before = folded(kind, inputs, options, output_count);
    std::vector<ValueId> outputs;
    for (const RecipeRef& r : before) outputs.push_back(graph.add_value(r->dtype, r->dims));

    int passed = 0;
    for (size_t slot = 0; slot < inputs.size() + outputs.size(); ++slot) {
      const bool is_output = slot >= inputs.size();
      const size_t index = is_output ? slot - inputs.size() : slot;
      Perm perm = stream::identity_perm(graph.at(is_output ? outputs[index] : inputs[index]).rank());
      do {
        const OpView view{graph, kind, inputs, options, output_count};
        auto movement = row.commute(view, outputs, {is_output, index}, perm);
        if (!movement) continue;
        ++passed;
        EXPECT_EQ((is_output ? movement->outputs : movement->inputs)[index], perm);
        expect_same(kind, inputs, options, *movement, before);
      } while (std::next_permutation(perm.begin(), perm.end()));
    }
    return passed;
  }

  void expect_same(Kind kind, const std::vector<ValueId>& inputs, const Options& options, const Movement& movement,
                   const std::vector<RecipeRef>& before) {
    Op op{.kind = kind, .inputs = inputs, .outputs = {}, .options = options};
    if (builtin(kind).rewrite) builtin(kind).rewrite(graph, op, movement);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Perm& perm = movement.inputs[i];
      if (perm.empty()) continue;
      RecipeRef data = graph.at(op.inputs[i]).constant;
      Shape lifted = data->dims;
      lifted.insert(lifted.begin(), perm.size() - lifted.size(), 1);
      op.inputs[i] = graph.add_constant(recipe::permute(recipe::reshape(data, lifted), perm));
    }
    const std::vector<RecipeRef> after = folded(kind, op.inputs, op.options, static_cast<int>(before.size()));
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < after.size(); ++i) {
      const Perm& perm = movement.outputs[i];
      RecipeRef expected = perm.empty() ? before[i] : recipe::permute(before[i], perm);
      EXPECT_EQ(after[i]->dims, expected->dims) << kind_name(kind);
      EXPECT_EQ(stream::evaluate_ints(after[i], budget), stream::evaluate_ints(expected, budget)) << kind_name(kind);
    }
  }

  Val input(Shape shape, DType dtype = DType::kFloat32) {
    ValueId id = graph.add_value(dtype, std::move(shape));
    graph.inputs.push_back(id);
    return {id};
  }
  std::vector<Dim> contents(Val v) {
    const std::vector<Dim>* known = graph.contents(v.id);
    return known ? *known : std::vector<Dim>{-777};
  }
};

TEST_F(MovementTest, CommutedOpsGiveTheSameElements) {
  Val x = numbered({2, 3, 4});
  EXPECT_EQ(check(Kind::kConcatenation, {x, numbered({2, 5, 4}), numbered({2, 1, 4})}, ConcatOptions{.axis = 1}), 24);
  EXPECT_EQ(check(Kind::kSplit, {b.i32_scalar(-1), x}, SplitOptions{2}, 2), 18);
  EXPECT_EQ(check(Kind::kSplitV, {x, list({1, 2}), b.i32_scalar(1)}, SplitOptions{2}, 2), 18);
  EXPECT_EQ(check(Kind::kSlice, {x, list({1, 0, 2}), list({1, -1, 2})}), 12);
  EXPECT_EQ(check(Kind::kStridedSlice, {x, list({1, 2, -1}), list({2, 0, -5}), list({1, -1, -2})},
                  StridedSliceOptions{.begin_mask = 2, .end_mask = 2}),
            12);
  EXPECT_EQ(check(Kind::kStridedSlice, {x, list({0, 1, 1}), list({2, 0, 4}), list({1, 1, 1})},
                  StridedSliceOptions{.shrink_axis_mask = 2}),
            8);
  EXPECT_EQ(check(Kind::kPad, {x, table({1, 0, 0, 2, 3, 1})}), 12);
  EXPECT_EQ(check(Kind::kPadv2, {x, table({1, 0, 0, 2, 3, 1}), b.i32_scalar(-7)}), 12);
  EXPECT_EQ(check(Kind::kTile, {x, list({2, 1, 3})}), 12);
  EXPECT_EQ(check(Kind::kReverseV2, {x, list({-2})}), 12);
  EXPECT_EQ(check(Kind::kReverseV2, {x, list({0, 1})}), 8);  // refuses what tears the axes apart
  EXPECT_EQ(check(Kind::kGather, {x, list({2, 0, 0, 1, 1})}, GatherOptions{.axis = 1}), 12);
  EXPECT_EQ(check(Kind::kGather, {x, b.i32_scalar(2)}, GatherOptions{.axis = -2}), 8);
  EXPECT_EQ(check(Kind::kBroadcastTo, {numbered({3, 1}), list({2, 3, 4})}), 6);
  EXPECT_EQ(check(Kind::kFill, {list({2, 3, 4}), b.i32_scalar(5)}), 6);
  EXPECT_EQ(check(Kind::kPack, {x, x}, PackOptions{.axis = 2}), 36);
  EXPECT_EQ(check(Kind::kUnpack, {x}, PackOptions{.axis = 1}, 3), 12);
  EXPECT_EQ(check(Kind::kSqueeze, {numbered({1, 3, 1, 4})}, SqueezeOptions{{0, -2}}), 26);
  EXPECT_EQ(check(Kind::kExpandDims, {x, b.i32_scalar(-2)}), 30);
  EXPECT_EQ(check(Kind::kReshape, {x, list({2, 12})}), 4);
  EXPECT_EQ(check(Kind::kReshape, {numbered({2, 3, 20}), list({2, 3, 4, -1})}), 12);
}

TEST_F(MovementTest, IndexTablesAndUnknownListsRefuse) {
  Val x = numbered({2, 3, 4});
  const ValueId inputs[] = {x.id, numbered({2, 1}).id};
  const Options options = GatherOptions{.axis = 1};
  const ValueId out = graph.add_value(DType::kInt32, {2, 2, 1, 4});
  EXPECT_FALSE(builtin(Kind::kGather).commute({graph, Kind::kGather, inputs, options}, {&out, 1}, {}, {0, 2, 1}));

  const ValueId dynamic[] = {x.id, input({3}, DType::kInt32).id};
  const Options none = NoOptions{};
  const ValueId tiled = graph.add_value(DType::kInt32, {2, 3, 4});
  EXPECT_FALSE(builtin(Kind::kTile).commute({graph, Kind::kTile, dynamic, none}, {&tiled, 1}, {}, {0, 2, 1}));
}

TEST_F(MovementTest, ARunTimeShapeIsPutInOrderByAGather) {
  const Dim h = symbols.named("h"), w = symbols.named("w");
  const Dim sides[] = {h, w};
  const ValueId inputs[] = {input({2, symbols.product(sides), 5}).id, input({4}, DType::kInt32).id};
  const Options none = NoOptions{};
  const ValueId out = graph.add_value(DType::kFloat32, {2, h, w, 5});
  const auto commuted = [&](const Perm& perm) {
    return builtin(Kind::kReshape).commute({graph, Kind::kReshape, inputs, none}, {&out, 1}, {}, perm);
  };
  const auto movement = commuted({0, 2, 1});
  ASSERT_TRUE(movement);
  EXPECT_EQ(movement->outputs[0], (Perm{0, 3, 1, 2}));
  core::Op op{.kind = Kind::kReshape, .inputs = {inputs[0], inputs[1]}, .outputs = {out}};
  builtin(Kind::kReshape).rewrite(graph, op, *movement);
  const core::Op& gather = graph.op(graph.at(op.inputs[1]).producer);
  EXPECT_EQ(gather.kind, Kind::kGather);
  EXPECT_EQ(gather.inputs[0], inputs[1]);
  EXPECT_EQ(graph.ints(gather.inputs[1]), (std::vector<int64_t>{0, 3, 1, 2}));

  // Of an unknown shape nothing is known that could change places.
  const ValueId unknown = graph.add_value(DType::kFloat32, {symbols.fresh("a"), symbols.fresh("b"), 2});
  EXPECT_FALSE(builtin(Kind::kReshape).commute({graph, Kind::kReshape, inputs, none}, {&unknown, 1}, {}, {0, 2, 1}));
}

TEST_F(MovementTest, ShapesOfStaticInputsAreConstants) {
  Val shape = b.shape_of(input({2, 3, 4, 5}));
  EXPECT_TRUE(b.is_constant(shape));
  EXPECT_TRUE(graph.ops.empty());
}

TEST_F(MovementTest, SymbolsPassThroughShapeComputations) {
  const Dim n = symbols.named("n"), h = symbols.named("h");
  Val shape = b.shape_of(input({n, 3, h, 5}));
  EXPECT_EQ(contents(shape), (std::vector<Dim>{n, 3, h, 5}));
  Val batch = b.gather(shape, b.i32_scalar(0), 0);
  EXPECT_EQ(contents(batch), std::vector<Dim>{n});
  const int64_t begin = 1;
  const Dim count = 2;
  Val middle = b.slice(shape, {&begin, 1}, {&count, 1});
  EXPECT_EQ(contents(middle), (std::vector<Dim>{3, h}));
  Val target = b.concat({b.reshape(batch, {1}), b.i32({-1})}, 0);
  EXPECT_EQ(contents(target), (std::vector<Dim>{n, -1}));
  Val x = b.op(Kind::kReshape, {input({n, 3, h, 5}), target});
  EXPECT_EQ(b.shape(x), (Shape{n, symbols.mul(h, 15)}));
  EXPECT_EQ(contents(b.reverse(shape, std::vector<int>{0})), (std::vector<Dim>{5, h, 3, n}));
  EXPECT_EQ(contents(b.tile(middle, std::vector<int64_t>{2})), (std::vector<Dim>{3, h, 3, h}));
  EXPECT_EQ(contents(b.pack(std::vector<Val>{batch, batch}, 0)), (std::vector<Dim>{n, n}));
}

// Each list is twice as long as the one before: what is known of it must not be.
TEST_F(MovementTest, LongListsAreNotFollowed) {
  const Dim n = symbols.named("n");
  for (const bool packs : {false, true}) {
    Val known = b.shape_of(input({n})), list = known;
    for (int i = 0; i < 30; ++i) {
      list = packs ? b.pack(std::vector<Val>{list, list}, 0) : b.concat({list, list}, 0);
      if (const auto* elements = graph.contents(list.id)) {
        known = list;
        EXPECT_EQ(*elements, std::vector<Dim>(size_t{2} << i, n));
      }
      list = b.reshape(list, {Dim{2} << i});
    }
    EXPECT_EQ(contents(known).size(), kContentsElements);
  }
}

// The kernels' numbers wrap where formulas do not.
TEST_F(MovementTest, ElementsThatWrapAreNotKnown) {
  const Dim n = symbols.named("n");
  const Val small = b.cast(b.shape_of(input({n, 70000})), DType::kInt32), large = b.cast(small, DType::kInt64);
  const auto times = [&](Val list, Dim factor) {
    const std::vector<int64_t> factors = {1, factor};
    return graph.contents(b.op(Kind::kMul, {list, {graph.add_ints(factors, b.dtype(list), {2})}}).id);
  };
  ASSERT_NE(times(small, 30000), nullptr);
  EXPECT_EQ(*times(small, 30000), (std::vector<Dim>{n, 2100000000}));
  EXPECT_EQ(times(small, 31000), nullptr);
  EXPECT_NE(times(large, 31000), nullptr);
  EXPECT_EQ(times(large, Dim{1} << 60), nullptr);
  // Recipes wrap as the kernels do.
  const Val halves = {graph.add_ints(std::vector<int64_t>{INT64_MAX, INT64_MAX, 3}, DType::kInt64, {3})};
  EXPECT_EQ(contents(b.op(Kind::kSum, {halves, b.i32({0})}, ReduceOptions{false})), std::vector<Dim>{1});
  EXPECT_EQ(contents(b.op(Kind::kReduceProd, {halves, b.i32({0})}, ReduceOptions{false})), std::vector<Dim>{3});
}

TEST_F(MovementTest, ElementsAreThoseOfTheFusedActivation) {
  const Dim n = symbols.named("n");
  const Val sizes = b.cast(b.shape_of(input({n, 9, 2})), DType::kInt32);
  const auto less = [&](Activation activation) {
    return contents(b.op(Kind::kSub, {sizes, b.i32({1, 1, 4})}, BinaryOptions{activation}));
  };
  const Dim below = symbols.sub(n, 1);
  EXPECT_EQ(less(Activation::kNone), (std::vector<Dim>{below, 8, -2}));
  EXPECT_EQ(less(Activation::kRelu), (std::vector<Dim>{symbols.max(below, 0), 8, 0}));
  EXPECT_EQ(less(Activation::kRelu6), (std::vector<Dim>{symbols.min(symbols.max(below, 0), 6), 6, 0}));
  EXPECT_EQ(less(Activation::kReluN1To1), (std::vector<Dim>{symbols.min(symbols.max(below, -1), 1), 1, -1}));
  // The kernel's wraps first.
  const Val product = b.op(Kind::kMul, {sizes, b.i32({1, 1, 1 << 30})}, BinaryOptions{Activation::kRelu6});
  EXPECT_EQ(graph.contents(product.id), nullptr);
}

TEST_F(MovementTest, SlicesOfSymbolicAxes) {
  const Dim n = symbols.named("n");
  Val x = input({n, 4});
  graph.chosen_extents->insert(n);
  auto extent = [&](int64_t begin, int64_t end, int64_t stride) {
    const int64_t begins[] = {begin, 0}, ends[] = {end, INT32_MAX}, strides[] = {stride, 1};
    return b.shape(b.strided_slice(x, begins, ends, strides))[0];
  };
  EXPECT_EQ(extent(0, INT32_MAX, 1), n);
  EXPECT_EQ(extent(1, INT32_MAX, 1), symbols.sub(n, 1));
  EXPECT_EQ(extent(0, -1, 1), symbols.sub(n, 1));
  EXPECT_EQ(extent(-1, INT32_MAX, 1), 1);
  EXPECT_EQ(extent(0, INT32_MAX, 2), symbols.ceil_div(n, 2));
  EXPECT_EQ(extent(0, 3, 1), symbols.min(n, 3));
  EXPECT_EQ(extent(2, INT32_MAX, 1), symbols.max(symbols.sub(n, 2), 0));
  EXPECT_TRUE(is_symbol(extent(1, 3, 1)));
  graph.chosen_extents->clear();
  EXPECT_EQ(extent(0, -1, 1), symbols.max(symbols.sub(n, 1), 0));
  EXPECT_EQ(extent(-1, INT32_MAX, 1), symbols.min(n, 1));
}

TEST_F(MovementTest, DimensionsAreComputedFromTheInputs) {
  const Dim n = symbols.named("n"), h = symbols.named("h");
  input({n, h});
  const Dim wanted[] = {symbols.add(symbols.mul(n, 2), symbols.floor_div(h, 3)), 7};
  Val dims = b.dims(wanted);
  EXPECT_EQ(contents(dims), (std::vector<Dim>{wanted[0], 7}));
  const Dim foreign[] = {symbols.named("elsewhere")};
  EXPECT_THROW(b.dims(foreign), stream::Unsupported);
}

TEST_F(MovementTest, WrongInputsAreMalformed) {
  Val x = numbered({2, 3, 4});
  auto refused = [&](Kind kind, std::vector<Val> inputs, Options options = {}) {
    EXPECT_THROW(b.op(kind, inputs, std::move(options)), stream::Error) << kind_name(kind);
  };
  refused(Kind::kReshape, {x, list({5, 5})});
  refused(Kind::kReshape, {x, list({-1, -1})});
  refused(Kind::kConcatenation, {x, numbered({2, 3, 5})}, ConcatOptions{.axis = 1});
  refused(Kind::kConcatenation, {x, numbered({3, 4})}, ConcatOptions{.axis = 0});
  refused(Kind::kSlice, {x, list({0, 0, 2}), list({1, 1, 3})});
  refused(Kind::kPad, {x, table({1, 0, 0, 2})});
  refused(Kind::kPad, {x, table({1, 0, 0, -2, 0, 0})});
  refused(Kind::kMirrorPad, {x, table({2, 0, 0, 0, 0, 0})}, MirrorPadOptions{});
  refused(Kind::kGather, {x, list({3})}, GatherOptions{.axis = 1});
  refused(Kind::kGather, {x, list({-1})}, GatherOptions{.axis = 1});
  refused(Kind::kTranspose, {x, list({0, 0, 1})});
  refused(Kind::kTile, {x, list({1, 1})});
  refused(Kind::kBroadcastTo, {x, list({2, 6, 4})});
  refused(Kind::kSqueeze, {x}, SqueezeOptions{{1}});
  refused(Kind::kRange, {b.i32_scalar(0), b.i32_scalar(3), b.i32_scalar(0)});
}

}  // namespace
}  // namespace lowtide::core
