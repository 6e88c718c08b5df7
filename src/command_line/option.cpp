#include <algorithm>
#include <map>
#include <string_view>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/command_line/command_line.h"

namespace optrace {
namespace {

// The name of one_of()'s validators starts with this; the values follow, with a space before each.
// CLI11 shows no names of validators.
constexpr std::string_view kOneOf = "one of";

/// The help shows a validator's description in its column of types, and has what is allowed in the
/// option's text already.
CLI::Validator without_description(CLI::Validator validator) {
  return validator.description("");
}

}  // namespace

Option Option::required(bool is_required) const {
  option_->required(is_required);
  return *this;
}

Option Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

Option Option::default_text(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::environment(const std::string& variable) const {
  option_->envname(variable);
  return *this;
}

Option Option::excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::excludes(const std::string& other) const {
  option_->excludes(other);
  return *this;
}

Option Option::needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::one_value_each_time() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::repeated() const {
  option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Option Option::one_of(const std::set<std::string>& values) const {
  option_->check(without_description(CLI::IsMember(values))
                     .name(fmt::format("{} {}", kOneOf, fmt::join(values, " "))));
  return *this;
}

std::vector<std::string> Option::values() const {
  for (int i = 0;; ++i) {
    const CLI::Validator* validator = nullptr;
    try {
      validator = option_->get_validator(i);
    } catch (const CLI::OptionNotFound&) {
      return {};
    }
    if (validator->get_name().starts_with(kOneOf))
      return CLI::detail::split(validator->get_name().substr(kOneOf.size() + 1), ' ');
  }
}

// CLI11's own conversion would accept -1 as the largest number.
Option Option::whole_number(std::uint64_t least) const {
  return check([least](const std::string& text) {
    constexpr std::size_t kMaxDigits = 18;
    const bool good = !text.empty() && text.size() <= kMaxDigits &&
                      text.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoull(text) >= least;
    return good ? std::string()
                : fmt::format("{} is not a whole number of at least {}", text, least);
  });
}

Option Option::between(int least, int most) const {
  option_->check(without_description(CLI::Range(least, most)));
  return *this;
}

Option Option::between(double least, double most) const {
  option_->check(without_description(CLI::Range(least, most)));
  return *this;
}

Option Option::size(std::uint64_t least) const {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 40;
  option_->transform(without_description(CLI::AsSizeValue(false)));
  return check([least](const std::string& given) {
    std::uint64_t size = 0;
    const bool good = CLI::detail::lexical_cast(given, size) && size >= least && size <= kMax;
    return good ? std::string()
                : fmt::format("{} bytes is not a size from {}M to 1T", given, least >> 20U);
  });
}

Option Option::seconds() const {
  return check([](const std::string& text) {
    constexpr double kMax = 1e9;
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && value <= kMax;
    return good ? std::string() : fmt::format("{} is not a number of seconds", text);
  });
}

Option Option::time_with_unit() const {
  static const std::map<std::string, std::uint64_t> units = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  const auto problem = [](const std::string& text) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits != 0 && units.contains(text.substr(digits))) return std::string();
    return fmt::format("{} is not a time; give a whole number and ns, us, ms or s: 50us", text);
  };
  // A later transformation takes place earlier.
  option_->transform(
      without_description(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_REQUIRED)));
  option_->transform(CLI::Validator(problem, ""));
  return *this;
}

Option Option::check(const std::function<std::string(const std::string&)>& problem) const {
  option_->check(CLI::Validator(problem, ""));
  return *this;
}

}  // namespace optrace
