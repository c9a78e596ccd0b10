// SPDX-License-Identifier: Apache-2.0
#include "emit/make_plan.h"

#include <fmt/format.h>

#include <cstring>

#include "emit/header.h"
#include "emit/in_place.h"
#include "emit/tflite_notes.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::emit {
namespace {

using stream::checked_add;

uint64_t align(uint64_t position) {
  return checked_add(position, kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

// Sets the position of each payload after the header, and the file's size.
void place_payloads(Plan& plan) {
  uint64_t end = plan.header.size();
  for (Payload& payload : plan.payloads) {
    payload.position = align(checked_add(end, plan.prefix()));
    end = checked_add(payload.position, payload.bytes);
    plan.payload_bytes = checked_add(plan.payload_bytes, payload.bytes);
  }
  plan.file_bytes = plan.payloads.empty() ? end : checked_add(align(end), kPayloadAlignment);
}

// Replaces the placeholders in the header's Buffer tables: positions were not known when it was built.
void patch_buffers(Plan& plan) {
  std::byte* base = plan.header.data();
  const auto* buffers = flatbuffers::GetRoot<tflite::Model>(base)->buffers();
  for (const Payload& payload : plan.payloads) {
    if (payload.buffer == 0) continue;
    const auto* table = reinterpret_cast<const flatbuffers::Table*>(buffers->Get(payload.buffer));
    auto field = [&](uint16_t slot) {
      return static_cast<uint64_t>(reinterpret_cast<const std::byte*>(table->GetAddressOf(slot)) - base);
    };
    uint64_t position = payload.position;
    if (plan.external) {
      std::memcpy(base + field(tflite::Buffer::VT_OFFSET), &position, sizeof position);
    } else {
      uint64_t at = field(tflite::Buffer::VT_DATA);
      auto forward = static_cast<uint32_t>(position - plan.prefix() - at);
      std::memcpy(base + at, &forward, sizeof forward);
    }
  }
}

// The archive with the labels as a payload of no buffer.
Payload archive_payload(const std::string& labels, uint64_t position, uint16_t comment) {
  std::vector<std::byte> bytes = label_archive(labels, position, comment);
  const auto size = static_cast<int64_t>(bytes.size());
  auto recipe = stream::recipe::inline_lanes(std::move(bytes), stream::DType::kUint8, {size});
  return {.recipe = std::move(recipe), .bytes = static_cast<uint64_t>(size), .tensor = std::string(kLabelFile)};
}

Plan make_plan(const core::Model& model, const WriteOptions& options, bool external) {
  Plan plan;
  plan.external = external;
  if (options.in_place) choose_in_place(model, *options.in_place, plan);
  build_header(model, plan);
  const bool has_labels = model.notes && !model.notes->labels.empty();
  // Bytes of the archive do not depend on its position.
  if (has_labels) plan.payloads.push_back(archive_payload(model.notes->labels, 0, 0));
  place_payloads(plan);
  if (has_labels) {
    Payload& archive = plan.payloads.back();
    const uint64_t position = archive.position, end = position + archive.bytes;
    archive = archive_payload(model.notes->labels, position, static_cast<uint16_t>(plan.file_bytes - end));
    archive.position = position;
  }
  return plan;
}

}  // namespace

Plan plan_tflite(const core::Model& model, const WriteOptions& options) {
  Plan plan = make_plan(model, options, options.external_buffers);
  if (!plan.external && plan.file_bytes > std::min(options.inline_limit, kInlineLimit))
    plan = make_plan(model, options, true);
  patch_buffers(plan);
  return plan;
}

}  // namespace lowtide::emit
