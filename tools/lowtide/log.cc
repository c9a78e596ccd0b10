// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/printable.h"

namespace lowtide::tools {
namespace {

constexpr const char* kFileLogger = "file";

// Lines are appended, so a file that is no log, a model for example, is not touched.
void check_log_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder, none))
    throw stream::Error(stream::Code::kNotFound, fmt::format("--log: the folder {} does not exist", folder.string()));
  if (!fs::exists(path, none)) return;
  const auto file = stream::open_file(path);
  std::array<char, 11> first = {};  // "2026-01-31 "
  if (file->size() == 0) return;
  file->read_at(0, std::as_writable_bytes(std::span(first)).first(std::min<uint64_t>(first.size(), file->size())));
  constexpr std::string_view kForm = "dddd-dd-dd ";
  for (size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == 'd' ? first[i] < '0' || first[i] > '9' : first[i] != kForm[i])
      throw stream::Error(stream::Code::kUsage, fmt::format("--log: {} exists and is not a log of lowtide", path));
}

}  // namespace

void start_log(bool verbose, const std::string& file) {
  std::vector<spdlog::sink_ptr> sinks;
  if (verbose) {
    auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_st>();
    to_stderr->set_pattern("%v");
    sinks.push_back(std::move(to_stderr));
  }
  if (!file.empty()) {
    check_log_file(file);
    try {
      auto to_file = std::make_shared<spdlog::sinks::basic_file_sink_st>(file);
      to_file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
      sinks.push_back(to_file);
      spdlog::register_logger(std::make_shared<spdlog::logger>(kFileLogger, std::move(to_file)));
    } catch (const spdlog::spdlog_ex& error) {
      throw stream::Error(stream::Code::kNotFound, fmt::format("--log: {}", error.what()), {.file = file});
    }
  }
  auto logger = std::make_shared<spdlog::logger>("lowtide", sinks.begin(), sinks.end());
  logger->set_level(sinks.empty() ? spdlog::level::off : spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);  // a process that is killed has its last line there
  spdlog::set_default_logger(std::move(logger));
}

void log_error(const std::string& text) {
  if (const auto logger = spdlog::get(kFileLogger)) {
    logger->error("{}", stream::printable(text));
    logger->flush();
  }
}

}  // namespace lowtide::tools
