// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/external.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::stream {
namespace {

[[noreturn]] void malformed_buffer(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

// A program that runs the model may put the name behind the model's folder as it is. Names that Lowtide writes are of
// files in that folder or below it.
void check_group_name(const std::string& name) {
  const std::filesystem::path path = name;
  const bool leads_out = std::find(path.begin(), path.end(), "..") != path.end();
  if (path.is_absolute() || leads_out || name.find('\0') != std::string::npos)
    throw Error(Code::kUnsafePath, fmt::format("external buffers: the file name '{}' {}", name,
                                               path.is_absolute() ? "is absolute"
                                               : leads_out        ? "leads out of the model's folder"
                                                                  : "has a NUL"));
}

}  // namespace

ExternalBuffers::ExternalBuffers(const TableView& root, const std::filesystem::path& folder, Budget& budget) {
  if (!folder.empty()) folder_.emplace(folder, spill_, budget);
  const TablesView groups = root.tables(tflite::Model::VT_EXTERNAL_BUFFER_GROUPS);
  root.view().hold(groups.size() * sizeof(Group));
  for (uint32_t i = 0; i < groups.size(); ++i) {
    groups_.emplace_back();
    groups_.back().file.name = groups[i].text(tflite::ExternalBufferGroup::VT_NAME);
    check_group_name(groups_.back().file.name);
  }
  const TablesView buffers = root.tables(tflite::Model::VT_EXTERNAL_BUFFERS);
  constexpr uint64_t kMapNode = 64;
  root.view().hold(buffers.size() * kMapNode);
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    using tflite::ExternalBuffer;
    const auto id = buffers[i].number<uint32_t>(ExternalBuffer::VT_ID);
    const Buffer buffer = {buffers[i].number<uint32_t>(ExternalBuffer::VT_GROUP),
                           buffers[i].number<uint64_t>(ExternalBuffer::VT_OFFSET),
                           buffers[i].number<uint64_t>(ExternalBuffer::VT_LENGTH)};
    if (buffer.group >= groups_.size())
      malformed_buffer(fmt::format("external buffer {} refers to group {}, but there are {} groups", id, buffer.group,
                                   groups_.size()));
    checked_add(buffer.offset, buffer.length);
    if (id == 0 || !buffers_.emplace(id, buffer).second)
      malformed_buffer(id == 0 ? "external buffer id 0 is reserved"
                               : fmt::format("external buffer {} is defined twice", id));
  }
}

void ExternalBuffers::use(Group& group) {
  if (std::exchange(group.is_used, true)) return;
  try {
    if (folder_) group.source = folder_->open_stored(group.file.name);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound && error.code() != Code::kUnsafePath) throw;
    group.file.problem = error.text();
  }
}

ExternalBuffers::Place ExternalBuffers::place(uint32_t id, uint64_t bytes) {
  auto it = buffers_.find(id);
  if (it == buffers_.end()) malformed_buffer(fmt::format("external buffer {} does not exist", id));
  const Buffer& buffer = it->second;
  if (bytes > buffer.length)
    malformed_buffer(fmt::format("the tensor needs {} bytes, but its external buffer has {}", bytes, buffer.length));
  Group& group = groups_[buffer.group];
  use(group);
  group.file.bytes = checked_add(group.file.bytes, bytes);
  if (!group.source) return {};
  const uint64_t end = buffer.offset + buffer.length, size = group.source->size();
  if (end <= size) return {group.source, buffer.offset};
  if (group.file.problem.empty()) group.file.problem = fmt::format("it has {} bytes, but {} are needed", size, end);
  return {};
}

std::vector<tfl::ExternalFile> ExternalBuffers::files() && {
  std::vector<tfl::ExternalFile> out;
  for (Group& group : groups_)
    if (group.is_used) out.push_back(std::move(group.file));
  return out;
}

}  // namespace lowtide::stream
