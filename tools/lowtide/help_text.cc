// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/help_text.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <sstream>
#include <string_view>

namespace lowtide::tools {
namespace {

// Lines of at most 80 columns, that begin at `column`, where the first line is begun already.
std::string wrapped(const std::string& text, size_t column) {
  constexpr size_t kColumns = 80;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t at = column;
    if (!out.empty()) out += "\n" + std::string(column, ' ');
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (at > column && at + 1 + word.size() > kColumns) {
        out += "\n" + std::string(column, ' ');
        at = column;
      }
      out += (at > column ? " " : "") + word;
      at += (at > column ? 1 : 0) + word.size();
    }
  }
  return out + "\n";
}

class HelpText : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override { return wrapped(app->get_description(), 0); }
  std::string make_usage(const CLI::App* app, std::string) const override {
    return fmt::format("\nUsage: {}\n", usage_line(*app));
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = is_positional ? upper_case(option->get_name()) : option->get_name(false, true);
    if (const size_t comma = name.find(','); comma != name.npos) name.insert(comma + 1, " ");
    if (!is_positional && !is_flag(*option)) name += " " + option->get_type_name();
    return entry(name, option->get_description());
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }

 private:
  // A name, and beside it, or below when it is long, its description.
  static std::string entry(const std::string& name, const std::string& description) {
    constexpr size_t kIndent = 2, kTextColumn = 26;
    std::string out = std::string(kIndent, ' ') + name;
    if (out.size() + kIndent > kTextColumn) out += "\n";
    out.append(kTextColumn - (out.ends_with('\n') ? 0 : out.size()), ' ');
    return out + wrapped(description, kTextColumn);
  }
};

std::vector<std::string> divided(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}

OptionDescription described(CLI::Option& option) {
  OptionDescription out;
  if (option.get_positional()) {
    out.argument = upper_case(option.get_name());
  } else {
    if (!option.get_snames().empty()) out.short_name = "-" + option.get_snames().front();
    if (!option.get_lnames().empty()) out.long_name = "--" + option.get_lnames().front();
  }
  if (!is_flag(option)) out.type = option.get_type_name();
  try {
    out.choices = divided(option.get_validator(0)->get_name());
  } catch (const CLI::OptionNotFound&) {  // it has no validator
  }
  out.text = option.get_description();
  out.group = option.get_group();
  out.is_required = option.get_required();
  out.is_repeatable = option.get_expected_max() > 1;
  return out;
}

CommandDescription described(CLI::App& app) {
  constexpr std::string_view kExamples = "Examples:\n";
  CommandDescription out;
  if (app.get_parent() != nullptr) out.name = app.get_name();
  out.usage = usage_line(app);
  out.text = app.get_description();
  std::vector<std::string> groups = {"Options"};
  for (const std::string& group : app.get_groups())
    if (group != "Options") groups.push_back(group);
  for (CLI::Option* option : app.get_options())
    if (option->get_positional()) out.options.push_back(described(*option));
  for (const std::string& group : groups)
    for (CLI::Option* option : app.get_options())
      if (!option->get_positional() && option->get_group() == group) out.options.push_back(described(*option));
  const std::string footer = app.get_footer();
  const size_t examples = footer.find(kExamples);
  out.notes = footer.substr(0, examples);
  out.notes.erase(out.notes.find_last_not_of('\n') + 1);
  if (examples != footer.npos) {
    std::istringstream lines(footer.substr(examples + kExamples.size()));
    for (std::string line; std::getline(lines, line);) out.examples.push_back(line.substr(line.find_first_not_of(' ')));
  }
  return out;
}

}  // namespace

std::string upper_case(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

std::string usage_line(const CLI::App& app) {
  std::string out = "lowtide";
  if (app.get_parent() == nullptr) return out + " COMMAND [OPTIONS]";
  out += " " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string argument = upper_case(option->get_name()) + (option->get_expected_max() > 1 ? "..." : "");
    out += option->get_required() ? " " + argument : fmt::format(" [{}]", argument);
  }
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional() && option->get_required())
      out += fmt::format(" {} {}", option->get_name(), option->get_type_name());
  return out + " [OPTIONS]";
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpText>(); }

std::string help_of(const CLI::App& app) {
  std::string text = app.help();
  // CLI11 puts two empty lines between groups of options.
  for (size_t at; (at = text.find("\n\n\n")) != text.npos;) text.erase(at, 1);
  return text;
}

ProgramDescription described_program(CLI::App& app) {
  ProgramDescription out;
  out.version = LOWTIDE_VERSION;
  out.program = described(app);
  for (CLI::App* command : app.get_subcommands([](CLI::App* command) { return !command->get_group().empty(); }))
    out.commands.push_back(described(*command));
  return out;
}

}  // namespace lowtide::tools
