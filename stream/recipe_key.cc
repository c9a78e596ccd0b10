#include "stream/recipe_key.h"

#include <type_traits>

namespace lowtide::stream {
namespace {

// A serialisation in which different recipes differ; only equality matters, so native byte order will do.
class Text {
 public:
  template <typename T>
  Text& number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  template <typename T>
  Text& list(const std::vector<T>& values) {
    number(values.size());
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }
  std::string text;
};

struct Writer {
  Text& out;
  void operator()(const step::Extent& s) const {
    out.number(s.source.get());
    for (const Stretch& stretch : s.stretches)
      out.number(stretch.offset)
          .number(stretch.bytes)
          .number(stretch.elements)
          .number(stretch.encoding)
          .number(stretch.width);
  }
  void operator()(const step::Inline& s) const { out.list(s.lanes); }
  void operator()(const step::Fill& s) const { out.list(s.lane); }
  void operator()(const step::Iota& s) const { out.number(s.start).number(s.delta); }
  void operator()(const step::Permute& s) const { out.list(s.perm); }
  void operator()(const step::Reshape&) const {}
  void operator()(const step::Cast&) const {}
  void operator()(const step::Slice& s) const { out.list(s.begin).list(s.stride); }
  void operator()(const step::Concat& s) const { out.number(s.axis); }
  void operator()(const step::Broadcast&) const {}
  void operator()(const step::Pad& s) const { out.list(s.before).list(s.lane); }
  void operator()(const step::Gather& s) const { out.number(s.axis).list(s.indices); }
  void operator()(const step::Unary& s) const { out.number(s.op); }
  void operator()(const step::Binary& s) const { out.number(s.op); }
  void operator()(const step::Select&) const {}
  void operator()(const step::Quantize& s) const { out.list(s.scale).list(s.zero).number(s.axis); }
  void operator()(const step::Dequantize& s) const { out.list(s.scale).list(s.zero).number(s.axis); }
  void operator()(const step::Reduce& s) const { out.number(s.op).list(s.axes); }
};

}  // namespace

int RecipeKeys::key(const RecipeRef& recipe) {
  if (auto it = known_.find(recipe.get()); it != known_.end()) return it->second;
  Text out;
  out.number(recipe->dtype).list(recipe->dims).number(recipe->step.index());
  std::visit(Writer{out}, recipe->step);
  for (const RecipeRef& from : recipe->from) out.number(key(from));
  const int number = keys_.try_emplace(std::move(out.text), static_cast<int>(keys_.size())).first->second;
  known_.emplace(recipe.get(), number);
  kept_.push_back(recipe);
  return number;
}

}  // namespace lowtide::stream
