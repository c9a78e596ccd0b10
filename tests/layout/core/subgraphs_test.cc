// SPDX-License-Identifier: Apache-2.0
#include "layout/core/subgraphs.h"

#include <gtest/gtest.h>

#include "stream/error.h"

namespace lowtide::core {
namespace {

struct Regions : testing::Test {
  stream::Budget budget{16 << 20};
  Model model{budget};
  Graph& graph = add_main();
  Builder b{graph};

  Graph& add_main() {
    model.graphs.push_back(std::make_unique<Graph>(model.symbols, budget));
    return *model.graphs[0];
  }
  Val input(DType dtype, Shape shape) {
    graph.inputs.push_back(graph.add_value(dtype, std::move(shape)));
    return {graph.inputs.back()};
  }
  const Op& last() const { return graph.ops.back(); }
};

TEST_F(Regions, BothBranchesReceiveTheCapturesOfEither) {
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {2, 3}), y = input(DType::kFloat32, {2, 3});
  Val weights = b.constant(stream::recipe::floats(std::vector<float>{1, 2, 3}, {3}));
  auto yes = [&](SubgraphBuilder& subgraph) {
    return std::vector<Val>{subgraph.b().mul(subgraph.here(x), subgraph.here(weights))};
  };
  auto no = [&](SubgraphBuilder& subgraph) {
    return std::vector<Val>{subgraph.b().add(subgraph.here(y), subgraph.here(weights))};
  };
  std::vector<Val> out = run_if(model, b, flag, yes, no);
  EXPECT_EQ(b.shape(out[0]), (Shape{2, 3}));
  EXPECT_EQ(last().kind, Kind::kIf);
  EXPECT_EQ(last().inputs, (std::vector<ValueId>{flag.id, x.id, y.id}));
  ASSERT_EQ(model.graphs.size(), 3u);
  for (size_t i : {1u, 2u}) {
    EXPECT_EQ(model.graphs[i]->inputs.size(), 2u);
    // The constant is repeated, its recipe is not: its bytes are stored once.
    const Op& op = model.graphs[i]->ops.at(0);
    EXPECT_EQ(model.graphs[i]->at(op.inputs[1]).constant, graph.at(weights.id).constant);
  }
}

// The model's inputs are taken to have elements; what a branch gets from the graph around it may have none.
TEST_F(Regions, OnlyExtentsOfTheModelsInputsAreAtLeastOne) {
  Symbols& symbols = model.symbols;
  const Dim n = symbols.named("n"), counted = symbols.fresh("counted");
  graph.chosen_extents->insert(n);
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {n});
  Val places{graph.add_value(DType::kFloat32, {counted})};
  const std::vector<int64_t> first{0}, second{1}, last{-1}, end{INT32_MAX};
  auto check = [&](SubgraphBuilder& subgraph) {
    Builder& inner = subgraph.b();
    const Val chosen = subgraph.here(x), found = subgraph.here(places);
    EXPECT_EQ(inner.dim(inner.strided_slice(chosen, first, last, second), 0), symbols.sub(n, 1));
    EXPECT_EQ(inner.dim(inner.strided_slice(chosen, last, end, second), 0), 1);
    EXPECT_EQ(inner.dim(inner.strided_slice(found, first, last, second), 0), symbols.max(symbols.sub(counted, 1), 0));
    EXPECT_EQ(inner.dim(inner.strided_slice(found, last, end, second), 0), symbols.min(counted, 1));
    return std::vector<Val>{chosen};
  };
  run_if(model, b, flag, check, check);
}

TEST_F(Regions, DimensionsInWhichBranchesDifferAreDynamic) {
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {2, 3});
  auto yes = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.here(x)}; };
  auto no = [&](SubgraphBuilder& subgraph) {
    return std::vector<Val>{subgraph.b().concat({subgraph.here(x), subgraph.here(x)}, 0)};
  };
  std::vector<Val> out = run_if(model, b, flag, yes, no);
  EXPECT_TRUE(is_symbol(b.dim(out[0], 0)));
  EXPECT_EQ(b.dim(out[0], 1), 3);
}

TEST_F(Regions, BranchesOfOtherTypesOrRanksAreRefused) {
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {2, 3});
  auto yes = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.here(x)}; };
  auto whole = [&](SubgraphBuilder& subgraph) {
    return std::vector<Val>{subgraph.b().cast(subgraph.here(x), DType::kInt32)};
  };
  auto flat = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.b().reshape(subgraph.here(x), {6})}; };
  auto none = [](SubgraphBuilder&) { return std::vector<Val>{}; };
  EXPECT_THROW(run_if(model, b, flag, yes, whole), stream::Unsupported);
  EXPECT_THROW(run_if(model, b, flag, yes, flat), stream::Unsupported);
  EXPECT_THROW(run_if(model, b, flag, yes, none), stream::Unsupported);
}

// A branch may be given up and another value of the same list be asked for.
TEST_F(Regions, AListOfAnUnknownElementIsRefusedEachTime) {
  const Val flag = input(DType::kBool, {}), unknown{b.graph.add_value(DType::kUndefined, {})};
  const Val list = b.tensor_list({{unknown}});
  auto yes = [&](SubgraphBuilder& subgraph) {
    for (const Val v : {list, list, unknown}) EXPECT_THROW(subgraph.here(v), UnknownType);
    return std::vector<Val>{};
  };
  run_if(model, b, flag, yes, yes);
}

// Not known to be constant by the kernel's own rule: a third value tells it that shapes change.
TEST_F(Regions, ABranchThatComputesAShapeMakesTheResultsDynamic) {
  Dim batch = model.symbols.named("batch");
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {batch, 3});
  auto yes = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.b().shape_of(subgraph.here(x))}; };
  auto no = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.b().i32({7, 5})}; };
  EXPECT_EQ(run_if(model, b, flag, yes, no).size(), 1u);
  EXPECT_EQ(last().outputs.size(), 2u);
}

std::vector<Val> go_on(SubgraphBuilder& subgraph, std::span<const Val>) {
  return {subgraph.b().filled(1, DType::kBool, {})};
}

TEST_F(Regions, DimensionsThatAnIterationChangesBecomeDynamic) {
  Val x = input(DType::kFloat32, {2, 3}), row = input(DType::kFloat32, {1, 3});
  int written = 0;
  auto turn = [&](SubgraphBuilder& subgraph, std::span<const Val> now) {
    ++written;
    return std::vector<Val>{subgraph.b().concat({now[0], subgraph.here(row)}, 0), subgraph.b().neg(now[1])};
  };
  std::vector<Val> out = run_while(model, b, std::vector<Val>{x, x}, go_on, turn);
  EXPECT_EQ(written, 2);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(is_symbol(b.dim(out[0], 0)));
  EXPECT_EQ(b.shape(out[1]), (Shape{2, 3}));
  // The two of the caller, the one that tells the kernel, and the row, which each turn hands on in its place.
  EXPECT_EQ(last().inputs.size(), 4u);
  EXPECT_EQ(last().inputs[3], row.id);
  const Graph& body = *model.graphs.back();
  EXPECT_EQ(body.inputs[3], body.outputs[3]);
}

TEST_F(Regions, ALoopStateKeepsItsTypeAndRank) {
  Val x = input(DType::kFloat32, {2, 3});
  auto cast = [](SubgraphBuilder& subgraph, std::span<const Val> now) {
    return std::vector<Val>{subgraph.b().cast(now[0], DType::kInt32)};
  };
  auto flat = [](SubgraphBuilder& subgraph, std::span<const Val> now) {
    return std::vector<Val>{subgraph.b().reshape(now[0], {6})};
  };
  EXPECT_THROW(run_while(model, b, std::vector<Val>{x}, go_on, cast), stream::Unsupported);
  EXPECT_THROW(run_while(model, b, std::vector<Val>{x}, go_on, flat), stream::Unsupported);
}

TEST_F(Regions, ADiscardedRegionRemovesItsGraphs) {
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {2, 3});
  auto keep = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.here(x)}; };
  {
    SubgraphBuilder trial(model, b, "trial");
    auto inner = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.here(trial.here(x))}; };
    run_if(model, trial.b(), trial.here(flag), inner, inner);
    EXPECT_EQ(model.graphs.size(), 3u);
  }
  EXPECT_EQ(model.graphs.size(), 1u);
  run_if(model, b, flag, keep, keep);
  EXPECT_EQ(model.graphs.size(), 3u);
}

TEST_F(Regions, UnreferencedGraphsAreDropped) {
  Val flag = input(DType::kBool, {}), x = input(DType::kFloat32, {2, 3});
  auto keep = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.here(x)}; };
  auto negate = [&](SubgraphBuilder& subgraph) { return std::vector<Val>{subgraph.b().neg(subgraph.here(x))}; };
  run_if(model, b, flag, keep, keep);
  graph.outputs = {run_if(model, b, flag, keep, negate)[0].id};
  graph.tidy();
  drop_unused_graphs(model);
  ASSERT_EQ(model.graphs.size(), 3u);
  const auto& named = std::get<SubgraphOptions>(last().options);
  EXPECT_EQ(named.first, 1);
  EXPECT_EQ(named.second, 2);
  EXPECT_EQ(model.graphs[2]->ops.size(), 1u);
}

}  // namespace
}  // namespace lowtide::core
