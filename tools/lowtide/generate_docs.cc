// SPDX-License-Identifier: Apache-2.0
// lowtide generate-docs: manual pages and completions, in the folders below share/ in which systems look for them.
#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <system_error>

#include "stream/error.h"
#include "stream/file/out_file.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/completion.h"
#include "tools/lowtide/man_page.h"

namespace lowtide::tools {
namespace {

void write_below(const std::filesystem::path& folder, const std::filesystem::path& name, const std::string& text) {
  const std::filesystem::path path = folder / name;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error)
    throw stream::Error(stream::Code::kNotFound,
                        fmt::format("the folder {} cannot be made: {}", path.parent_path().string(), error.message()));
  stream::OutFile file(path, text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace

void generate_docs(const DocsCommand& options) {
  const ProgramDescription& program = options.program;
  write_below(options.folder, "man/man1/lowtide.1", man_page(program));
  for (const CommandDescription& command : program.commands)
    write_below(options.folder, fmt::format("man/man1/lowtide-{}.1", command.name), man_page(program, command));
  write_below(options.folder, "bash-completion/completions/lowtide", bash_completion(program));
  write_below(options.folder, "zsh/site-functions/_lowtide", zsh_completion(program));
  write_below(options.folder, "fish/vendor_completions.d/lowtide.fish", fish_completion(program));
}

}  // namespace lowtide::tools
