// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "stream/error.h"

namespace lowtide::tools {
namespace {

using stream::Code;

struct StatusMeaning {
  Code code;
  const char* text;
};
constexpr std::array kMeanings = {
    StatusMeaning{Code::kUsage, "an option, or a value of one, is wrong or does not fit the model"},
    StatusMeaning{Code::kNotFound, "a file or folder does not exist, or may not be opened or written"},
    StatusMeaning{Code::kIo, "reading or writing failed, or an input changed while it was read"},
    StatusMeaning{Code::kNoSpace, "the output does not fit on the disk"},
    StatusMeaning{Code::kMalformed, "a file is damaged, or of another format"},
    StatusMeaning{Code::kUnsafePath, "external data are outside of the model's folder, or not regular files"},
    StatusMeaning{Code::kUnsupported, "the model has nodes that TFLite cannot express exactly"},
    StatusMeaning{Code::kBudget, "a limit of memory is too small; the message names one that is enough"},
    StatusMeaning{Code::kInterrupted, "the program was interrupted (SIGINT, SIGTERM or SIGHUP)"},
    StatusMeaning{Code::kInternal, "an error in the program itself; please report it"},
    StatusMeaning{Code::kDifferent,
                  "check: the TFLite file is not what the ONNX model converts to; verify: results differ too much"},
};
static_assert(
    [] {
      for (size_t i = 0; i < kMeanings.size(); ++i)
        if (static_cast<size_t>(kMeanings[i].code) != i) return false;
      return kMeanings.back().code == Code::kDifferent;
    }(),
    "each kind of error has its line");

// Text of a line, in which roff reads no request and no escape. Hyphens are printed as they are typed.
std::string roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char letter : text) {
    if (letter == '\\')
      out += "\\e";
    else if (letter == '-')
      out += "\\-";
    else if (letter == '"')
      out += "\\(dq";
    else
      out += letter;
  }
  return out;
}

std::string upper(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

// The lines of a description: each begins a new line of the page.
std::string roff_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out += (out.empty() ? "" : ".br\n") + roff(text.substr(0, end)) + "\n";
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return out;
}

std::string title(const ProgramDescription& program, const std::string& name) {
  return fmt::format(".TH {} 1 \"\" \"lowtide {}\" \"User Commands\"\n", roff(upper(name)), roff(program.version));
}

// "Convert an ONNX model to TFLite." as the summary of a page: "convert an ONNX model to TFLite".
std::string summary(std::string text) {
  text = text.substr(0, text.find_first_of(".:\n"));
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string name_section(const std::string& name, const std::string& text) {
  return fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(summary(text)));
}

std::string entry(const OptionDescription& option) {
  std::string head;
  if (option.is_positional()) head = fmt::format("\\fI{}\\fR", roff(option.argument));
  for (const std::string& name : {option.short_name, option.long_name})
    if (!name.empty()) head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", roff(name));
  if (!option.is_positional() && option.takes_value()) head += fmt::format(" \\fI{}\\fR", roff(option.type));
  std::string out = fmt::format(".TP\n{}\n{}", head, roff_lines(option.text));
  if (!option.choices.empty())
    out += fmt::format(".br\nValues: {}.\n", roff(fmt::format("{}", fmt::join(option.choices, ", "))));
  return out;
}

std::string option_sections(const CommandDescription& command) {
  std::string out, group;
  for (const OptionDescription& option : command.options) {
    const std::string heading = option.is_positional() ? "Arguments" : option.group;
    const bool is_section = option.is_positional() || heading == "Options";
    if (heading != group) out += is_section ? ".SH " + upper(heading) + "\n" : ".SS " + heading + "\n";
    group = heading;
    out += entry(option);
  }
  return out;
}

std::string status_section() {
  std::string out = ".SH EXIT STATUS\n.TP\n0\nsuccess\n";
  for (const StatusMeaning& meaning : kMeanings)
    out += fmt::format(".TP\n{}\n{} ({})\n", stream::exit_status(meaning.code), roff(meaning.text),
                       roff(stream::code_name(meaning.code)));
  return out;
}

std::string example_section(const CommandDescription& command) {
  if (command.examples.empty()) return {};
  std::string out = ".SH EXAMPLES\n.nf\n";
  for (const std::string& line : command.examples) out += roff(line) + "\n";
  return out + ".fi\n";
}

std::string synopsis(const CommandDescription& command) {
  const size_t space = command.usage.find(' ');
  return fmt::format(".SH SYNOPSIS\n\\fB{}\\fR{}\n", roff(command.usage.substr(0, space)),
                     roff(command.usage.substr(space)));
}

std::string description(const CommandDescription& command) {
  std::string out = ".SH DESCRIPTION\n" + roff_lines(command.text);
  return command.notes.empty() ? out : out + ".PP\n" + roff_lines(command.notes);
}

}  // namespace

std::string man_page(const ProgramDescription& program) {
  const CommandDescription& whole = program.program;
  std::string out = title(program, "lowtide") + name_section("lowtide", whole.text) + synopsis(whole) +
                    description(whole) + ".SH COMMANDS\n";
  std::string see_also = ".SH SEE ALSO\n";
  for (const CommandDescription& command : program.commands) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}", roff(command.name), roff_lines(command.text));
    see_also += fmt::format("{}.BR \\%lowtide\\-{} (1)", command.name == program.commands.front().name ? "" : ",\n",
                            roff(command.name));
  }
  return out + option_sections(whole) + status_section() + example_section(whole) + see_also + "\n";
}

std::string man_page(const ProgramDescription& program, const CommandDescription& command) {
  const std::string name = "lowtide-" + command.name;
  return title(program, name) + name_section(name, command.text) + synopsis(command) + description(command) +
         option_sections(command) + status_section() + example_section(command) + ".SH SEE ALSO\n.BR lowtide (1)\n";
}

}  // namespace lowtide::tools
