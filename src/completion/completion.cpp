#include "src/completion/completion.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "gpu/build/dry_run.h"
#include "lookup/layers/layer_survey.h"
#include "present/hyperlink_format.h"
#include "pytorch/libraries/backend_name.h"
#include "report/findings/finding_rules.h"

namespace optrace {
namespace {

enum class ValueKind : std::uint8_t {
  files,
  ops,
  ops_and_files,
  names,
  processes,
  gpu_models,
  rules,
  layers,
  backends,
  hyperlinks,
  devices,
  dtypes,
};

struct KnownValue {
  std::string_view name;  // Of an option or positional argument, or the type of its value.
  ValueKind kind;
};

// What values are, where the description of the command has no list of them. An option's name comes
// before its type.
constexpr auto kValues = std::to_array<KnownValue>({
    {"--device", ValueKind::devices},
    {"--dry-run", ValueKind::gpu_models},
    {"--dtype", ValueKind::dtypes},
    {"--hyperlink-format", ValueKind::hyperlinks},
    {"--ignore", ValueKind::rules},
    {"--ops", ValueKind::ops},
    {"--under", ValueKind::ops},
    {"--until-op", ValueKind::ops},
    {"--why-not", ValueKind::backends},
    {"--expect", ValueKind::files},
    {"OP", ValueKind::ops},
    {"NAME", ValueKind::names},
    {"PID", ValueKind::processes},
    {"LAYER", ValueKind::layers},
    {"TRACE", ValueKind::files},
    {"A", ValueKind::ops_and_files},
    {"B", ValueKind::ops_and_files},
    {"CALL", ValueKind::ops_and_files},
    {"DIR", ValueKind::files},
    {"FILE", ValueKind::files},
    {"PATH", ValueKind::files},
});

std::optional<ValueKind> kind_of(std::string_view name) {
  const auto* const found = std::ranges::find(kValues, name, &KnownValue::name);
  return found == kValues.end() ? std::nullopt : std::optional(found->kind);
}

std::optional<ValueKind> kind_of(const OptionDescription& option) {
  for (const std::string& name : option.names)
    if (const auto kind = kind_of(name)) return kind;
  return option.positional || option.type == "NAME" ? std::nullopt : kind_of(option.type);
}

class Completer {
 public:
  Completer(const CommandDescription& command, const CompletionNames& names)
      : command_(&command), names_(names) {}

  Completion complete(std::span<const std::string> words) {
    const std::string& last = words.back();
    for (const std::string& word : words.first(words.size() - 1)) read(word);
    if (in_program_)
      result_.files = true;
    else if (option_ != nullptr)
      add_values(*option_, "", last);
    else if (last.starts_with('-') && !only_positional_)
      add_options(last);
    else
      add_positional(last);
    return std::move(result_);
  }

 private:
  // Follows a complete word.
  void read(const std::string& word) {
    if (in_program_) return;
    if (option_ != nullptr) {
      option_ = nullptr;
    } else if (word == "--") {
      only_positional_ = true;
    } else if (word.starts_with('-') && word.size() > 1 && !only_positional_) {
      const OptionDescription* const option = command_->option(word.substr(0, word.find('=')));
      if (option == nullptr)
        in_program_ = runs_program();  // -m MODULE, -c CODE
      else if (option->takes_value && word.find('=') == std::string::npos)
        option_ = option;
      if (word == command_->program_after) program_follows_ = true;
    } else if (const CommandDescription* const one = command_->command(word);
               one != nullptr && positionals_ == 0) {
      command_ = one;
    } else {
      ++positionals_;
      in_program_ = runs_program();
    }
  }

  // A program and its own arguments are not optrace's.
  bool runs_program() const {
    return command_->program_after && (command_->program_after->empty() || program_follows_);
  }

  void add(std::string_view start, const std::string& word, const std::string& help = {}) {
    if (word.starts_with(start)) result_.candidates.push_back({word, help});
  }

  void add_options(const std::string& start) {
    if (const std::size_t equals = start.find('='); equals != std::string::npos) {
      const OptionDescription* const option = command_->option(start.substr(0, equals));
      if (option != nullptr)
        add_values(*option, start.substr(0, equals + 1), start.substr(equals + 1));
      return;
    }
    for (const OptionDescription& option : command_->options) {
      if (option.positional) continue;
      for (const std::string& name : option.names)
        if (name.starts_with("--") || option.names.size() == 1 || start == "-")
          add(start, name, option.help);
    }
  }

  void add_positional(const std::string& start) {
    if (positionals_ == 0)
      for (const CommandDescription& one : command_->commands) add(start, one.name, one.help);
    if (runs_program())
      result_.files = true;
    else if (const OptionDescription* const option = command_->positional(positionals_))
      add_values(*option, "", start);
  }

  // Adds values that begin with `start`, with `prefix` before each.
  void add_values(const OptionDescription& option, const std::string& prefix,
                  const std::string& start) {
    const auto add_all = [&](const auto& values) {
      for (const auto& value : values)
        if (const std::string word(value); word.starts_with(start))
          result_.candidates.push_back({prefix + word});
    };
    add_all(option.choices);
    const std::optional<ValueKind> kind = kind_of(option);
    if (!kind || !option.choices.empty()) return;
    switch (*kind) {
      case ValueKind::files:
        result_.files = true;
        return;
      case ValueKind::ops_and_files:
        result_.files = true;
        return add_all(names_.ops(start));
      case ValueKind::ops:
        return add_all(names_.ops(start));
      case ValueKind::names:
        return add_all(names_.names(start));
      case ValueKind::processes:
        for (Candidate& one : names_.processes(start)) result_.candidates.push_back(std::move(one));
        return;
      case ValueKind::gpu_models:
        add_all(emulated_architectures());
        return add_all(emulated_gpu_models());
      case ValueKind::rules:
        for (const FindingRule& rule : finding_rules()) add_all(std::array{std::string(rule.name)});
        return;
      case ValueKind::layers:
        for (const MappedLayer& layer : layer_map()) add_all(std::array{std::string(layer.id)});
        return;
      case ValueKind::backends:
        return add_all(known_backends());
      case ValueKind::hyperlinks:
        for (const HyperlinkAlias& alias : hyperlink_aliases())
          add_all(std::array{std::string(alias.name)});
        return;
      case ValueKind::devices:
        return add_all(std::array{"cpu", "cuda", "meta", "mps", "xpu"});
      case ValueKind::dtypes:
        return add_all(std::array{"float16", "bfloat16", "float32", "float64", "complex64"});
    }
  }

  const CommandDescription* command_;
  const CompletionNames& names_;
  const OptionDescription* option_ = nullptr;  // Takes the next word.
  std::size_t positionals_ = 0;
  bool only_positional_ = false;
  bool in_program_ = false;
  bool program_follows_ = false;  // `optrace explain --compiled`.
  Completion result_;
};

}  // namespace

Completion complete(const CommandDescription& command, std::span<const std::string> words,
                    const CompletionNames& names) {
  static const std::string kNothing;
  return Completer(command, names).complete(words.empty() ? std::span(&kNothing, 1) : words);
}

std::string to_lines(const Completion& completion) {
  std::string lines;
  for (const Candidate& one : completion.candidates)
    lines += one.help.empty() ? one.word + "\n" : one.word + "\t" + one.help + "\n";
  if (completion.files) lines += ":files\n";
  return lines;
}

}  // namespace optrace
