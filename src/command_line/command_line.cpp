#include "src/command_line/command_line.h"

#include <algorithm>
#include <sstream>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace optrace {

Command::Command(const std::string& name, const std::string& description)
    : app_(std::make_shared<CLI::App>(description, name)) {}

Command::Command(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

Command::~Command() = default;

Command& Command::add_subcommand(const std::string& name, const std::string& description) {
  CLI::App* const added = app_->add_subcommand(name, description);
  subcommands_.push_back(std::unique_ptr<Command>(new Command(app_->get_subcommand_ptr(added))));
  return *subcommands_.back();
}

Command& Command::add_exclusive_group(const std::string& title) {
  CLI::App* const added = app_->add_option_group(title);
  added->require_option(0, 1);
  groups_.push_back(std::unique_ptr<Command>(new Command(app_->get_subcommand_ptr(added))));
  return *groups_.back();
}

void Command::require_subcommands(std::size_t least, std::size_t most) {
  app_->require_subcommand(least, most);
}

void Command::footer(const std::string& text) {
  app_->footer(text);
}

void Command::add_version(const std::string& line) {
  app_->set_version_flag("--version", line);
}

void Command::option_width(std::size_t width) {
  app_->get_formatter()->column_width(width);
}

void Command::callback(const std::function<void()>& run) {
  app_->callback(run);
}

Option Command::add_option(const std::string& names, std::string& value, const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, std::optional<std::string>& value,
                           const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, std::vector<std::string>& values,
                           const std::string& help) {
  return Option(*app_->add_option(names, values, help));
}

Option Command::add_option(const std::string& names, std::filesystem::path& value,
                           const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, int& value, const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, unsigned& value, const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, std::uint64_t& value,
                           const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, std::optional<std::uint64_t>& value,
                           const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, double& value, const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names,
                           const std::function<void(const std::string&)>& take,
                           const std::string& help) {
  return Option(*app_->add_option_function<std::string>(names, take, help));
}

Option Command::add_option(const std::string& names,
                           const std::function<void(const std::vector<std::string>&)>& take,
                           const std::string& help) {
  return Option(*app_->add_option_function<std::vector<std::string>>(names, take, help));
}

Option Command::add_flag(const std::string& names, bool& given, const std::string& help) {
  return Option(*app_->add_flag(names, given, help));
}

Option Command::add_flag(const std::string& names, const std::function<void()>& note,
                         const std::string& help) {
  return Option(*app_->add_flag_callback(names, note, help));
}

Option Command::add_flag(const std::string& name, std::string& value, const std::string& usual,
                         const std::string& help) {
  return Option(*app_->add_flag(name + "{" + usual + "}", value, help));
}

Option Command::add_positional(const std::string& name, std::string& value,
                               const std::string& help) {
  return add_option(name, value, help).type_name("");
}

Option Command::add_positional(const std::string& name, std::vector<std::string>& values,
                               const std::string& help) {
  return add_option(name, values, help).type_name("");
}

Option Command::add_positional(const std::string& name, int& value, const std::string& help) {
  return add_option(name, value, help).type_name("");
}

const std::string& Command::name() const {
  return app_->get_name();
}

std::string Command::version() const {
  return app_->version();
}

Option Command::option(const std::string& name) const {
  return Option(*app_->get_option(name));
}

std::vector<std::string> Command::long_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* const option : std::as_const(*app_).get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool Command::takes_value(const std::string& option) const {
  const CLI::Option* const found = app_->get_option_no_throw(option);
  return found != nullptr && found->get_items_expected_max() != 0;
}

void Command::parse(std::vector<std::string> words) {
  std::ranges::reverse(words);  // As CLI11 takes them.
  try {
    app_->parse(std::move(words));
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app_->exit(asked, text, text);
    throw HelpAsked(text.str());
  } catch (const CLI::ParseError& wrong) {
    throw WrongUsage(wrong.what());
  }
}

void Command::parse(std::span<char* const> arguments) {
  const auto words = arguments.subspan(std::min<std::size_t>(arguments.size(), 1));
  parse(std::vector<std::string>(words.begin(), words.end()));
}

std::size_t Command::count(const std::string& option) const {
  return app_->count(option);
}

const Command* Command::chosen() const {
  const std::vector<CLI::App*> given = app_->get_subcommands();
  if (given.empty()) return nullptr;
  const auto found = std::ranges::find_if(
      subcommands_, [&](const auto& command) { return command->app_.get() == given.front(); });
  return found == subcommands_.end() ? nullptr : found->get();
}

std::vector<std::string> Command::unexpected_words() const {
  return app_->remaining(true);
}

}  // namespace optrace
