#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <Zydis/Zydis.h>

#include "platform/elf/instruction_values.h"
#include "platform/elf/module_symbols.h"

namespace optrace::machine_code {

inline constexpr std::size_t kArguments = 4;  // Function name, file, line, message.
inline constexpr std::size_t kLineArgument = 2;

using Values = std::array<Value, kArguments>;

/// The instructions of a function and of its cold parts.
class FunctionCode {
 public:
  FunctionCode(const ModuleSymbols& module, const std::vector<NativeFunction>& pieces);

  /// Calls `visit(address)` for each instruction that may run directly before the one at `at`.
  template <typename Visit>
  void for_each_before(std::uint64_t at, Visit visit) const {
    const auto here = std::ranges::lower_bound(starts_, at, {}, &Start::address);
    if (here != starts_.end() && here->address == at && here->follows)
      visit(std::prev(here)->address);
    for (auto jump = std::ranges::lower_bound(jumps_, std::pair(at, std::uint64_t{0}));
         jump != jumps_.end() && jump->first == at; ++jump)
      visit(jump->second);
  }

  bool starts_at(std::uint64_t address) const;

  std::optional<Decoded> decode(std::uint64_t at) const;

 private:
  struct Start {
    std::uint64_t address = 0;
    bool follows = false;  ///< The instruction before it may continue here.
  };

  void scan(const NativeFunction& piece);

  const ModuleSymbols& module_;
  ZydisDecoder decoder_{};
  std::vector<Start> starts_;  // The pieces are passed in ascending order.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> jumps_;  // Target, origin; sorted.
};

/// Finds the constants that reach a call, on all ways to it.
class ValueSearch {
 public:
  explicit ValueSearch(const FunctionCode& code) : code_(code) {}

  /// Returns the sets of values with which the call at `call` is reached, where `places` is not
  /// unknown.
  std::set<Values> run(std::uint64_t call, const Values& places);

  /// Returns the slot with the start of the object that `pointer` points to at a call, if it is on
  /// the stack.
  std::optional<Value> stack_object(std::uint64_t call, ZydisRegister pointer) const;

 private:
  static constexpr unsigned kMaxLength = 64;
  static constexpr unsigned kMaxSteps = 4000;
  static constexpr std::size_t kMaxFound = 64;

  void follow(std::uint64_t call, const Values& places);

  void add_known(Values values);

  const FunctionCode& code_;
  std::set<Values> found_;
  std::set<std::pair<std::uint64_t, Values>> seen_;
  unsigned steps_ = 0;
};

}  // namespace optrace::machine_code
