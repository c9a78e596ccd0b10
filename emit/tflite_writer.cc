#include "emit/tflite_writer.h"

#include <set>

#include "emit/back_to_front.h"
#include "emit/progress.h"
#include "stream/file.h"

namespace lowtide::emit {
namespace {

// Every file that the payloads are read from.
std::set<const stream::Source*> sources(const Plan& plan) {
  std::set<const stream::Source*> out;
  std::set<const stream::Recipe*> seen;
  std::vector<const stream::Recipe*> open;
  for (const Payload& payload : plan.payloads) open.push_back(payload.recipe.get());
  while (!open.empty()) {
    const stream::Recipe* recipe = open.back();
    open.pop_back();
    if (!seen.insert(recipe).second) continue;
    if (const auto* extent = std::get_if<stream::step::Extent>(&recipe->step)) out.insert(extent->source.get());
    for (const auto& input : recipe->from) open.push_back(input.get());
  }
  return out;
}

}  // namespace

WriteResult summary(const Plan& plan) {
  return {plan.external, plan.file_bytes, plan.header.size(), plan.payload_bytes,
          plan.tensors,  plan.operators,  plan.transposes};
}

WriteResult write_tflite(const Plan& plan, const std::filesystem::path& path, stream::Budget& budget,
                         const WriteOptions& options) {
  uint64_t data = 0;
  for_each_data(plan, [&](stream::Range range) { data += range.bytes(); });
  stream::OutFile out(path, plan.file_bytes, data);
  for_each_data(plan, [&](stream::Range range) { out.reserve(range); });
  if (options.progress) options.progress->begin("writing", plan.file_bytes - plan.header.size());
  pour_payloads(plan, out, budget, options);
  out.write_at(0, plan.header);
  for (const stream::Source* source : sources(plan)) source->check_unchanged();
  out.commit();
  return summary(plan);
}

WriteResult write_tflite(const core::Model& model, const std::filesystem::path& path, stream::Budget& budget,
                         const WriteOptions& options) {
  return write_tflite(plan_tflite(model, options), path, budget, options);
}

}  // namespace lowtide::emit
