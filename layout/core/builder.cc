// SPDX-License-Identifier: Apache-2.0
#include "layout/core/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "layout/core/builtin.h"
#include "layout/core/integer_constant.h"
#include "layout/core/kernel_limits.h"
#include "layout/core/reshape_list.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {
namespace {

using stream::Code;
using stream::Error;
namespace recipe = stream::recipe;

// Constants of at most this many elements are computed when they are folded: shapes, axes and scales, which passes
// read. A longer one stays a recipe, so that the contents of small weights do not fill the memory.
constexpr uint64_t kEagerElements = 256;

// Lists of at most this many elements are shared: of axes, extents and permutations.
constexpr size_t kSharedElements = 16;

// A constant of more steps is left to the run, where intermediate results are stored: x + x of x + x of ... would be
// computed 2^n times. Exporters write far fewer steps.
constexpr int kMostFoldedSteps = stream::kMaxSteps / 4;

// A product of matrices of at most this many elements is computed, although its operands are smaller: it most often is
// an intermediate result, of a network that computes a table of positions for instance.
constexpr uint64_t kProductElements = 4 * stream::kSmallElements;

// A weight as it is stored, in another order or shape: nothing is computed, and a step takes less memory than this many
// elements.
bool is_moved_weight(const stream::Recipe& made) {
  constexpr uint64_t kLeastElements = 64;
  if (made.elements() <= kLeastElements || made.dims.size() < 2) return false;
  const bool is_permuted = std::holds_alternative<stream::step::Permute>(made.step);
  return recipe::plain_stored(is_permuted ? *made.from[0] : made) != nullptr;
}

bool is_matrix_product(Kind kind) { return kind == Kind::kFullyConnected || kind == Kind::kBatchMatmul; }

// A constant that an op makes larger (a broadcast, a tile) is left to the run: folding must not make the file grow.
bool worth_folding(Kind kind, uint64_t in_bytes, const RecipeRef& out) {
  return stream::is_small(*out) || (is_matrix_product(kind) && out->elements() <= kProductElements) ||
         out->bytes() <= stream::checked_mul(in_bytes, 2);
}

// Whether the work of a folded constant is bounded. Most constants take some steps for each byte that is read or made.
// Reductions may take more: as many as an extent in the file says, which is limited here. Beyond the limit the op stays
// in the graph. A small result of a long reduction is computed at once, so that it is not computed again.
bool may_take(Graph& graph, Kind kind, RecipeRef& made) {
  constexpr uint64_t kFree = 256;
  const uint64_t work = recipe::work(*made);
  if (work / kFree <= std::max(made->cost.stored, made->bytes())) return true;
  if (is_matrix_product(kind)) return true;  // these are counted where they are folded
  if (!stream::is_small(*made) || work > *graph.reductions_left) return false;
  *graph.reductions_left -= work;
  made = recipe::inline_lanes(stream::evaluate(made, graph.budget), made->dtype, made->dims);
  return true;
}

std::vector<int64_t> normalised(std::span<const int> axes, int rank) {
  std::vector<int64_t> out;
  for (int axis : axes) {
    if (axis < -rank || axis >= rank)
      throw Error(Code::kMalformed, fmt::format("axis {} is outside a tensor of rank {}", axis, rank));
    out.push_back(axis < 0 ? axis + rank : axis);
  }
  return out;
}

}  // namespace

Dim Builder::dim(Val v, int axis) const {
  const int axes[] = {axis};
  return shape(v)[static_cast<size_t>(normalised(axes, rank(v))[0])];
}

Val Builder::scalar(double value, DType dtype) { return constant(recipe::fill_value(value, dtype, {})); }
Val Builder::filled(double value, DType dtype, Shape shape) {
  return constant(recipe::fill_value(value, dtype, std::move(shape)));
}
Val Builder::i32(std::span<const int64_t> elements) {
  if (elements.size() > kSharedElements)
    return {graph.add_ints(elements, DType::kInt32, {static_cast<Dim>(elements.size())})};
  auto& [recipe, id] = lists_[{elements.begin(), elements.end()}];
  const bool is_new = !recipe;
  // A pass may have numbered the values anew, or given the list a name or a scale.
  const bool stands = !is_new && static_cast<size_t>(id) < graph.values.size() && graph.at(id).constant == recipe &&
                      graph.at(id).name.empty() && !graph.at(id).quantization;
  if (is_new) recipe = recipe::ints(elements, DType::kInt32, {static_cast<Dim>(elements.size())});  // may throw
  if (!stands) id = graph.add_constant(recipe);
  return {id};
}
Val Builder::i32_scalar(int64_t value) { return {graph.add_ints({&value, 1}, DType::kInt32, {})}; }

Val Builder::dims(std::span<const Dim> wanted, DType dtype, Val of) {
  if (stream::is_static(wanted)) return {graph.add_ints(wanted, dtype, {static_cast<Dim>(wanted.size())})};
  // Consecutive static ones share a constant.
  std::vector<Val> parts;
  std::vector<int64_t> known;
  auto flush = [&] {
    if (!known.empty()) parts.push_back(i32(known));
    known.clear();
  };
  for (Dim dim : wanted) {
    if (!is_symbol(dim)) {
      known.push_back(dim);
      continue;
    }
    flush();
    Val found = run_time_dim(*this, dim, of);
    if (!found)
      throw stream::Unsupported(
          fmt::format("the dimension {} cannot be computed at run time", graph.symbols.to_string(dim)),
          "fix the inputs' shapes with --shape INPUT=...");
    parts.push_back(found);
  }
  flush();
  return cast(concat(parts, 0), dtype);
}

Val Builder::tensor_list(std::span<const Val> elements) {
  const Val made{graph.add_value(DType::kString, {})};
  Op list{.kind = Kind::kTensorList, .inputs = {}, .outputs = {made.id}, .origin = origin};
  for (Val element : elements) list.inputs.push_back(element.id);
  graph.at(made.id).producer = static_cast<OpId>(graph.ops.size());
  graph.add_op(std::move(list));
  return made;
}

bool Builder::is_tensor_list(Val v) const {
  known(v);
  return core::is_tensor_list(graph, v.id);
}

void Builder::check_ops_left(size_t results) const {
  if (results > ops_left)
    throw stream::Unsupported(
        "it becomes too many operators: some for each batch, class, group, part, or turn of a loop");
}

std::vector<Val> Builder::ops(Kind kind, std::initializer_list<Val> inputs, Options options, int output_count) {
  return ops(kind, std::span<const Val>(inputs.begin(), inputs.size()), std::move(options), output_count);
}

std::vector<Val> Builder::ops(Kind kind, std::span<const Val> inputs, Options options, int output_count) {
  const auto results = static_cast<size_t>(std::max(output_count, 1));
  check_ops_left(results);
  ops_left -= results;
  std::vector<ValueId> ids;
  for (Val v : inputs) {
    if (v) known(v);
    ids.push_back(v.id);
  }
  while (!ids.empty() && ids.back() == kAbsent) ids.pop_back();
  const Builtin& row = builtin(kind);
  const OpView view{graph, kind, ids, options, output_count};
  std::vector<TensorType> types = inferred(view);

  bool all_constant = !ids.empty();
  uint64_t in_bytes = 0;
  std::vector<RecipeRef> constants;
  for (ValueId id : ids) {
    if (id == kAbsent) continue;
    all_constant = all_constant && graph.at(id).is_constant();
    if (!all_constant) break;
    constants.push_back(graph.at(id).constant);
    in_bytes = stream::checked_add(in_bytes, constants.back()->bytes());
  }
  std::vector<Val> out;
  const bool concatenates = kind == Kind::kConcatenation || kind == Kind::kPack || kind == Kind::kDynamicUpdateSlice;
  if (all_constant && *row.fold && recipe::steps_of(constants, concatenates) <= kMostFoldedSteps) {
    std::vector<RecipeRef> recipes = row.fold(view);
    if (!recipes.empty() && std::all_of(recipes.begin(), recipes.end(), [&](RecipeRef& r) {
          return worth_folding(kind, in_bytes, r) && may_take(graph, kind, r);
        })) {
      for (size_t i = 0; i < recipes.size(); ++i) {
        RecipeRef& made = recipes[i];
        if (made->dtype != types[i].dtype || made->dims != types[i].shape)
          throw Error(Code::kInternal, fmt::format("{} folds to {} {}, but is inferred as {} {}", kind_name(kind),
                                                   dtype_name(made->dtype), stream::to_string(made->dims),
                                                   dtype_name(types[i].dtype), stream::to_string(types[i].shape)));
        // Integers behind floats are kept: integer kernels read them.
        const bool is_data =
            std::holds_alternative<stream::step::Inline>(made->step) || integer_constant(made, graph.budget);
        // A product would be computed again for each tile that is read of it.
        const uint64_t eager = is_matrix_product(kind) ? stream::kSmallElements : kEagerElements;
        if (made->elements() <= eager && !is_data && !is_moved_weight(*made))
          made = recipe::inline_lanes(stream::evaluate(made, graph.budget), made->dtype, made->dims);
        out.push_back(constant(std::move(made)));
      }
      return out;
    }
  }
  // A small integer tensor whose elements are all known needs no op.
  if (types.size() == 1 && types[0].contents && stream::is_static(types[0].shape) &&
      std::none_of(types[0].contents->begin(), types[0].contents->end(), is_symbol))
    return {constant(recipe::ints(*types[0].contents, types[0].dtype, types[0].shape))};

  // Nothing is computed of results without elements: some kernels crash (SOFTMAX), XNNPACK gives other shapes. Only
  // where all extents are known: inference takes one that is not to be at least 1.
  const bool all_known = std::all_of(
      ids.begin(), ids.end(), [&](ValueId id) { return id == kAbsent || stream::is_static(graph.at(id).shape); });
  const bool are_empty =
      all_known && !types.empty() && std::all_of(types.begin(), types.end(), [](const TensorType& type) {
        return (stream::is_float(type.dtype) || stream::is_integer(type.dtype) || type.dtype == DType::kBool) &&
               std::find(type.shape.begin(), type.shape.end(), 0) != type.shape.end() && stream::is_static(type.shape);
      });
  if (are_empty) {
    for (const TensorType& type : types) out.push_back(constant(recipe::fill_value(0, type.dtype, type.shape)));
    return out;
  }

  Op op{.kind = kind, .inputs = std::move(ids), .outputs = {}, .options = std::move(options), .origin = origin};
  auto id = static_cast<OpId>(graph.ops.size());
  for (TensorType& type : types) {
    ValueId value = graph.add_value(type.dtype, std::move(type.shape));
    graph.at(value).contents = std::move(type.contents);
    graph.at(value).producer = id;
    op.outputs.push_back(value);
    out.push_back({value});
  }
  graph.add_op(std::move(op));
  return out;
}

Val Builder::cast(Val x, DType to) { return dtype(x) == to ? x : op(Kind::kCast, {x}, IndexOptions{to}); }

Val Builder::reshape(Val x, std::span<const Dim> wanted) {
  if (std::equal(shape(x).begin(), shape(x).end(), wanted.begin(), wanted.end())) return x;
  // RESHAPE of RESHAPE: only the last counts. What is before it may lack an extent that x has, and that is wanted.
  const Val of = x;
  for (OpId p = graph.at(x.id).producer; p >= 0 && graph.op(p).kind == Kind::kReshape; p = graph.at(x.id).producer) {
    const Val before{graph.op(p).inputs[0]};
    if (graph.at(before.id).quantization != graph.at(x.id).quantization) break;  // it gives the integers other numbers
    x = before;
    if (std::equal(shape(x).begin(), shape(x).end(), wanted.begin(), wanted.end())) return x;
  }
  if (std::any_of(wanted.begin(), wanted.end(), [](Dim dim) { return dim > INT32_MAX; }))
    throw stream::Unsupported(fmt::format("the shape {} has an extent of more than {}, the largest of TFLite",
                                          stream::to_string(wanted), INT32_MAX));
  const auto list = constant_reshape_list(wanted);
  Val target = list ? i32(*list) : dims(wanted, DType::kInt32, of);
  Val out = op(Kind::kReshape, {x, target}, NoOptions{});
  // The caller knows more of the shape than -1 tells; known elements tell more than a symbol.
  if (!is_constant(out) && !graph.at(out.id).contents) graph.at(out.id).shape.assign(wanted.begin(), wanted.end());
  // Integers on a grid stay on it. One for each channel has an axis, which the caller knows.
  if (const auto& grid = graph.at(x.id).quantization; grid && grid->scale.size() == 1)
    graph.at(out.id).quantization = grid;
  return out;
}

bool Builder::can_reshape_to(std::span<const Dim> wanted) {
  const bool fits = std::all_of(wanted.begin(), wanted.end(), [](Dim dim) { return dim <= INT32_MAX; });
  if (!fits) return false;
  if (constant_reshape_list(wanted)) return true;
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](Dim dim) { return !is_symbol(dim) || has_run_time_dim(*this, dim); });
}

Val Builder::transpose(Val x, const Perm& perm) {
  if (stream::is_identity(perm)) return x;
  if (OpId p = graph.at(x.id).producer; p >= 0 && graph.op(p).kind == Kind::kTranspose) {
    const Op& before = graph.op(p);
    Val source{before.inputs[0]};
    if (auto first = graph.ints(before.inputs[1]))
      return transpose(source, stream::compose(Perm(first->begin(), first->end()), perm));
  }
  std::vector<int64_t> wide(perm.begin(), perm.end());
  return op(Kind::kTranspose, {x, i32(wide)});
}

Val Builder::squeeze(Val x, std::span<const int> axes) {
  std::vector<int64_t> drop = normalised(axes, rank(x));
  Shape out;
  for (int i = 0; i < rank(x); ++i)
    if (!std::count(drop.begin(), drop.end(), i)) out.push_back(dim(x, i));
  return reshape(x, out);
}

Val Builder::unsqueeze(Val x, std::span<const int> axes) {
  int out_rank = rank(x) + static_cast<int>(axes.size());
  std::vector<int64_t> add = normalised(axes, out_rank);
  Shape out;
  int next = 0;
  for (int i = 0; i < out_rank; ++i) out.push_back(std::count(add.begin(), add.end(), i) ? 1 : dim(x, next++));
  return reshape(x, out);
}

Val Builder::lift(Val x, int wanted_rank) {
  if (rank(x) >= wanted_rank) return x;
  Shape out(static_cast<size_t>(wanted_rank - rank(x)), 1);
  out.insert(out.end(), shape(x).begin(), shape(x).end());
  return reshape(x, out);
}

Val Builder::concat(std::span<const Val> parts, int axis) {
  if (parts.size() == 1) return parts[0];
  if (axis < 0) axis += rank(parts[0]);
  return op(Kind::kConcatenation, parts, ConcatOptions{.axis = axis});
}

bool Builder::moves_exactly(Kind kind, Val x) const {
  if (keeps_bits(kind, dtype(x))) return true;
  const OpId producer = known(x).producer;
  if (dtype(x) != DType::kFloat64 || producer < 0) return false;
  const Op& made = graph.op(producer);
  // A product with 1 or a sum with 0 is removed later, and keeps all bits.
  const auto may_be_neutral = [&](ValueId in) {
    if (in == kAbsent || !graph.at(in).is_constant()) return false;
    const auto numbers = graph.numbers(in);
    return !numbers || std::ranges::all_of(*numbers, [](double number) { return number == 0 || number == 1; });
  };
  if (std::ranges::any_of(made.inputs, may_be_neutral)) return false;
  const KernelLimits* made_by = kernel_limits(made.kind);
  return made_by != nullptr && !made_by->takes(DType::kFloat64);
}

std::vector<Val> Builder::slices(Val x, std::span<const int64_t> sizes, int axis) {
  std::vector<int64_t> begin(shape(x).size(), 0);
  std::vector<Dim> size(begin.size(), -1);
  std::vector<Val> out;
  for (const int64_t extent : sizes) {
    size[static_cast<size_t>(axis)] = extent;
    out.push_back(slice(x, begin, size));
    begin[static_cast<size_t>(axis)] += extent;
  }
  return out;
}

std::vector<Val> Builder::split(Val x, std::span<const int64_t> sizes, int axis) {
  if (sizes.size() == 1) return {x};
  if (axis < 0) axis += rank(x);
  int count = static_cast<int>(sizes.size());
  // Of an open axis it is SPLIT_V, which refuses data of another extent when it is run.
  if (!moves_exactly(Kind::kSplitV, x) && stream::is_static(dim(x, axis))) return slices(x, sizes, axis);
  bool equal = std::all_of(sizes.begin(), sizes.end(), [&](int64_t s) { return s == sizes[0]; });
  if (equal && stream::is_static(dim(x, axis)))
    return ops(Kind::kSplit, {i32_scalar(axis), x}, SplitOptions{count}, count);
  return ops(Kind::kSplitV, {x, i32(sizes), i32_scalar(axis)}, SplitOptions{count}, count);
}

std::vector<Val> Builder::split(Val x, int64_t parts, int64_t size, int axis) {
  check_ops_left(static_cast<size_t>(parts));  // before there is a list of as many
  return split(x, std::vector<int64_t>(static_cast<size_t>(parts), size), axis);
}

namespace {

// Where elements from `begin` on, `count` of them, lie in the parts of a joined list.
struct PlaceInPart {
  Val part;
  int64_t begin = 0;
};

// nullopt where x is no joined list, or no part has all of them.
std::optional<PlaceInPart> place_in_part(const Graph& graph, Val x, int64_t begin, Dim count) {
  const OpId producer = graph.at(x.id).producer;
  if (producer < 0 || graph.at(x.id).rank() != 1 || begin < 0 || count < 0) return std::nullopt;
  const Op& join = graph.op(producer);
  if (join.kind != Kind::kConcatenation || std::get<ConcatOptions>(join.options).activation != Activation::kNone)
    return std::nullopt;
  for (const ValueId part : join.inputs) {
    const Dim length = graph.at(part).shape[0];
    if (is_symbol(length)) return std::nullopt;
    if (begin < length) {
      const bool fits = count <= length - begin && graph.at(part).quantization == graph.at(x.id).quantization;
      return fits ? std::optional(PlaceInPart{{part}, begin}) : std::nullopt;
    }
    begin -= length;
  }
  return std::nullopt;
}

}  // namespace

Val Builder::slice(Val x, std::span<const int64_t> begin, std::span<const Dim> size) {
  if (begin.size() != shape(x).size())
    throw Error(Code::kMalformed, fmt::format("the tensor has rank {}, not {}", rank(x), begin.size()));
  // Sizes in numbers where they are known: XNNPACK takes no -1.
  Shape count(size.begin(), size.end());
  bool whole = true;
  for (size_t i = 0; i < begin.size(); ++i) {
    const Dim extent = shape(x)[i];
    if (count[i] == -1 && stream::is_static(extent)) count[i] = extent - begin[i];
    whole = whole && begin[i] == 0 && (count[i] == -1 || count[i] == extent);
  }
  if (whole) return x;
  if (const auto place = place_in_part(graph, x, begin[0], count[0]))
    return slice(place->part, {&place->begin, 1}, {count.data(), 1});
  return op(Kind::kSlice, {x, i32(begin), dims(count)});
}

Val Builder::strided_slice(Val x, std::span<const int64_t> begin, std::span<const int64_t> end,
                           std::span<const int64_t> stride) {
  // Ends beyond the tensor become masks, which are right for every run-time extent.
  StridedSliceOptions options;
  std::vector<int64_t> from(begin.begin(), begin.end()), to(end.begin(), end.end());
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  bool whole = true;
  for (size_t i = 0; i < from.size(); ++i) {
    bool forward = stride[i] > 0;
    if (forward ? from[i] == 0 : from[i] >= kFar) options.begin_mask |= 1 << i;
    if (forward ? to[i] >= kFar : to[i] <= -kFar) options.end_mask |= 1 << i;
    whole = whole && stride[i] == 1 && has_bit(options.begin_mask, i) && has_bit(options.end_mask, i);
    from[i] = std::clamp(from[i], -kFar, kFar);
    to[i] = std::clamp(to[i], -kFar, kFar);
  }
  if (whole) return x;
  return op(Kind::kStridedSlice, {x, i32(from), i32(to), i32(stride)}, options);
}

namespace {

std::vector<int64_t> interleave(std::span<const int64_t> before, std::span<const int64_t> after) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < before.size(); ++i) {
    out.push_back(before[i]);
    out.push_back(after[i]);
  }
  return out;
}
bool all_zero(std::span<const int64_t> list) {
  return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
}

}  // namespace

Val Builder::pad(Val x, std::span<const int64_t> before, std::span<const int64_t> after, double value) {
  if (all_zero(before) && all_zero(after)) return x;
  std::vector<int64_t> table = interleave(before, after);
  Val paddings{graph.add_ints(table, DType::kInt32, {static_cast<Dim>(before.size()), 2})};
  if (value == 0 && !std::signbit(value)) return op(Kind::kPad, {x, paddings});
  return op(Kind::kPadv2, {x, paddings, scalar(value, dtype(x))});
}

Val Builder::mirror_pad(Val x, std::span<const int64_t> before, std::span<const int64_t> after, bool symmetric) {
  if (all_zero(before) && all_zero(after)) return x;
  std::vector<int64_t> table = interleave(before, after);
  Val paddings{graph.add_ints(table, DType::kInt32, {static_cast<Dim>(before.size()), 2})};
  return op(Kind::kMirrorPad, {x, paddings}, MirrorPadOptions{symmetric});
}

Val Builder::tile(Val x, std::span<const int64_t> repeats) {
  if (std::all_of(repeats.begin(), repeats.end(), [](int64_t r) { return r == 1; })) return x;
  return op(Kind::kTile, {x, i32(repeats)});
}

Val Builder::broadcast_to(Val x, std::span<const Dim> wanted) {
  if (std::equal(shape(x).begin(), shape(x).end(), wanted.begin(), wanted.end())) return x;
  Val out = op(Kind::kBroadcastTo, {x, dims(wanted)});
  if (!is_constant(out)) graph.at(out.id).shape.assign(wanted.begin(), wanted.end());
  return out;
}

Val Builder::tile_to(Val x, std::span<const Dim> wanted) {
  const size_t added = wanted.size() - shape(x).size();
  Shape lifted(added, 1);
  lifted.insert(lifted.end(), shape(x).begin(), shape(x).end());
  std::vector<int64_t> repeats;
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    const bool repeated = lifted[axis] == 1 && wanted[axis] != 1;
    if (!repeated && lifted[axis] != wanted[axis]) return {};
    repeats.push_back(repeated ? wanted[axis] : 1);
  }
  if (!stream::is_static(repeats) || std::count_if(lifted.begin(), lifted.end(), is_symbol) > 1) return {};
  const Val out = tile(reshape(x, lifted), repeats);
  if (!is_constant(out)) graph.at(out.id).shape.assign(wanted.begin(), wanted.end());
  return out;
}

Val Builder::reverse(Val x, std::span<const int> axes) {
  // The kernel takes one axis or several neighbouring ones: one at a time always works.
  Val out = x;
  for (int64_t axis : normalised(axes, rank(x))) out = op(Kind::kReverseV2, {out, i32({axis})});
  return out;
}

Val Builder::pack(std::span<const Val> parts, int axis) {
  if (axis < 0) axis += rank(parts[0]) + 1;
  return op(Kind::kPack, parts, PackOptions{axis});
}

bool Builder::may_have_no_element(Val x) const {
  const auto has_some = [&](const Symbols::Term& term) {
    return term.factor > 0 &&
           std::ranges::all_of(term.atoms, [&](const Dim atom) { return graph.batches->contains(atom); });
  };
  return std::ranges::any_of(graph.at(x.id).shape, [&](const Dim dim) {
    return dim == 0 || !std::ranges::all_of(graph.symbols.terms(dim), has_some);
  });
}

std::vector<Val> Builder::unpack(Val x, int axis) {
  if (axis < 0) axis += rank(x);
  Dim count = dim(x, axis);
  if (!stream::is_static(count))
    throw stream::Unsupported("the dimension that is unpacked is not static",
                              "fix the inputs' shapes with --shape INPUT=...");
  check_ops_left(static_cast<size_t>(count));
  const bool is_exact = moves_exactly(Kind::kUnpack, x);
  if (is_exact && !may_have_no_element(x)) return ops(Kind::kUnpack, {x}, PackOptions{axis}, static_cast<int>(count));
  const std::vector<int64_t> ones(static_cast<size_t>(count), 1);
  std::vector<Val> parts = is_exact ? split(x, ones, axis) : slices(x, ones, axis);
  for (Val& part : parts) part = squeeze(part, std::array{axis});
  return parts;
}

Val Builder::bias_or_zeros(Kind kind, Val weights, Val bias) {
  return bias ? bias : filled(0, DType::kFloat32, {dim(weights, weights_of(kind)->output_axis)});
}

namespace {

constexpr Dim kMostSummed = 1 << 16, kMostDivided = Dim{1} << 40;

// The elements that one of the result is made of, at most kMostDivided; 0 where there are none or a size is unknown.
Dim summed_elements(const Shape& shape, const std::vector<int64_t>& axes) {
  Dim count = 1;
  for (const int64_t axis : axes) {
    const Dim extent = shape[static_cast<size_t>(axis)];
    if (!stream::is_static(extent) || extent == 0) return 0;
    count = extent > kMostDivided / count ? kMostDivided : count * extent;
  }
  return count;
}

Dim largest_divisor_up_to_root(Dim number) {
  Dim found = 1;
  for (Dim i = 2; i * i <= number; ++i)
    if (number % i == 0) found = i;
  return found;
}

}  // namespace

// LiteRT's own kernels add floats one after the other, so that digits are lost: the mean of 200,000 numbers is 7e-5
// off, that of 16 million 6 %, and 2e-4 in XNNPACK. Sums of sums are not: 2e-6.
Val Builder::reduce(Kind kind, Val x, std::span<const int> axes, bool keep_dims) {
  const std::vector<int64_t> places = normalised(axes, rank(x));
  // The mean of 8-bit integers behind a DEQUANTIZE is computed by an integer kernel, exactly, whose sums have 32 bits.
  // For 16 bits these have room for kMostSummed, and no integer kernel gives exact sums.
  constexpr Dim kMostBytes = Dim{1} << 23;
  const OpId maker = graph.at(x.id).producer;
  const bool of_bytes = kind == Kind::kMean && maker >= 0 && graph.op(maker).kind == Kind::kDequantize &&
                        stream::bits(graph.at(graph.op(maker).inputs[0]).dtype) == 8;
  const bool adds = (kind == Kind::kMean || kind == Kind::kSum) && stream::is_float(dtype(x));
  const Dim summed = adds ? summed_elements(shape(x), places) : 0;
  if (summed <= (of_bytes ? kMostBytes : kMostSummed) || summed == kMostDivided)
    return op(kind, {x, i32(places)}, ReduceOptions{keep_dims});
  const auto last =
      std::find_if(places.rbegin(), places.rend(), [&](int64_t axis) { return dim(x, static_cast<int>(axis)) > 1; });
  const int axis = static_cast<int>(*last);
  if (dim(x, axis) < summed) {
    const std::array<int, 1> first = {axis};
    return reduce(kind, reduce(kind, x, first, true), axes, keep_dims);
  }
  const Dim rows = largest_divisor_up_to_root(summed);
  if (rows == 1) return op(kind, {x, i32(places)}, ReduceOptions{keep_dims});
  Shape divided = shape(x);
  divided[static_cast<size_t>(axis)] = rows;
  divided.insert(divided.begin() + axis + 1, summed / rows);
  const std::array<int, 1> row = {axis + 1};
  return reduce(kind, reduce(kind, reshape(x, divided), row, false), axes, keep_dims);
}

}  // namespace lowtide::core
