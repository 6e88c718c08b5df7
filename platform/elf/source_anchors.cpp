#include "platform/elf/source_anchors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <Zydis/Zydis.h>

#include "platform/elf/near_branches.h"
#include "platform/elf/value_search.h"

namespace optrace {

using namespace machine_code;

namespace {

/// The way in which a function gets an argument.
struct Argument {
  enum class Kind : std::uint8_t { none, general, stack, pointed_to } kind = Kind::none;
  ZydisRegister in = ZYDIS_REGISTER_NONE;  ///< general: the register; pointed_to: the pointer.
  std::int32_t offset = 0;                 ///< stack: from rsp at the call; pointed_to: in bytes.
};

constexpr Argument in_register(ZydisRegister which) {
  return {Argument::Kind::general, which, 0};
}
constexpr Argument on_stack(std::int32_t offset) {
  return {Argument::Kind::stack, ZYDIS_REGISTER_NONE, offset};
}
constexpr Argument behind(ZydisRegister pointer, std::int32_t offset) {
  return {Argument::Kind::pointed_to, pointer, offset};
}

/// The arguments of a function that takes a place in the source.
struct AnchorCall {
  AnchorKind kind = AnchorKind::check;
  Argument function_name;
  Argument file;
  Argument line;
  Argument message;
};

// c10::SourceLocation: function, file, line. It is passed in memory because it has 24 bytes.
constexpr std::array kLocationOnStack = {on_stack(0), on_stack(8), on_stack(16)};
constexpr std::array kLocationBehindRdx = {
    behind(ZYDIS_REGISTER_RDX, 0), behind(ZYDIS_REGISTER_RDX, 8), behind(ZYDIS_REGISTER_RDX, 16)};

constexpr auto kRdi = in_register(ZYDIS_REGISTER_RDI);
constexpr auto kRsi = in_register(ZYDIS_REGISTER_RSI);
constexpr auto kRdx = in_register(ZYDIS_REGISTER_RDX);
constexpr auto kRcx = in_register(ZYDIS_REGISTER_RCX);
constexpr auto kR8 = in_register(ZYDIS_REGISTER_R8);
constexpr auto kR9 = in_register(ZYDIS_REGISTER_R9);

/// Functions by the start of their mangled names (c10/util/Exception.h, c10/util/Logging.h,
/// c10/cuda/CUDAException.h, torch/library.h). The parameters behind the location differ between
/// versions of PyTorch.
struct NamedCall {
  std::string_view start;
  AnchorCall call;
};
constexpr auto kNamedCalls = std::to_array<NamedCall>({
    {"_ZN3c106detail14torchCheckFailEPKcS2_jS2_", {AnchorKind::check, kRdi, kRsi, kRdx, kRcx}},
    {"_ZN3c106detail14torchCheckFailEPKcS2_jRK", {AnchorKind::check, kRdi, kRsi, kRdx, {}}},
    {"_ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_",
     {AnchorKind::assertion, kRdi, kRsi, kRdx, kRcx}},
    {"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_",
     {AnchorKind::cuda_check, kRdx, kRsi, kRcx, {}}},
    {"_ZN5torch7LibraryC1ENS0_4KindE", {AnchorKind::registration, {}, kR8, kR9, {}}},
    {"_ZN5torch7LibraryC2ENS0_4KindE", {AnchorKind::registration, {}, kR8, kR9, {}}},
    {"_ZN3c1018ThrowEnforceNotMetEPKciS1_", {AnchorKind::enforcement, {}, kRdi, kRsi, kRdx}},
    {"_ZN3c1024ThrowEnforceFiniteNotMetEPKciS1_", {AnchorKind::enforcement, {}, kRdi, kRsi, kRdx}},
    {"_ZN3c1013MessageLoggerC1EPKcii", {AnchorKind::logging, {}, kRsi, kRdx, {}}},
    {"_ZN3c1013MessageLoggerC2EPKcii", {AnchorKind::logging, {}, kRsi, kRdx, {}}},
});

/// Returns how the function with this mangled name gets a place in the source, if it does.
std::optional<AnchorCall> anchor_call(std::string_view symbol) {
  for (const NamedCall& named : kNamedCalls)
    if (symbol.starts_with(named.start)) return named.call;
  // Constructors in c10 that take a c10::SourceLocation, by value or by reference.
  if (!symbol.starts_with("_ZN3c10") || (symbol.find("C1E") == std::string_view::npos &&
                                         symbol.find("C2E") == std::string_view::npos))
    return std::nullopt;
  const AnchorKind kind = symbol.starts_with("_ZN3c107WarningC")         ? AnchorKind::warning
                          : symbol.starts_with("_ZN3c1013MessageLogger") ? AnchorKind::logging
                                                                         : AnchorKind::error;
  const auto& at = symbol.find("RKNS_14SourceLocationE") != std::string_view::npos
                       ? kLocationBehindRdx
                       : kLocationOnStack;
  if (symbol.find("NS_14SourceLocationE") == std::string_view::npos) return std::nullopt;
  return AnchorCall{kind, at[0], at[1], at[2], {}};
}

/// Returns the start of the slot that an instruction `FF 25` or `FF 15` refers to.
std::uint64_t slot_at(std::uint64_t address, std::span<const std::byte> code, std::size_t opcode) {
  constexpr std::size_t kLength = 6;
  std::int32_t distance = 0;
  std::memcpy(&distance, &code[opcode + 2], sizeof distance);
  return address + opcode + kLength + static_cast<std::uint64_t>(std::int64_t{distance});
}

class AnchorFinder {
 public:
  explicit AnchorFinder(const ModuleSymbols& module) : module_(module) {}

  std::vector<SourceAnchor> run() {
    find_targets();
    find_calls();
    std::map<std::uint64_t, std::vector<Site>> by_function;
    for (const Site& site : sites_) {
      const auto function = module_.find(site.call);
      if (function) by_function[function->address].push_back(site);
    }
    add_cold_parts(by_function);
    for (const auto& [address, sites] : by_function) resolve(address, sites);
    std::ranges::sort(found_, {}, [](const SourceAnchor& anchor) {
      return std::tuple(anchor.call, anchor.line, anchor.file);
    });
    return std::move(found_);
  }

 private:
  struct Site {
    std::uint64_t call = 0;
    const AnchorCall* how = nullptr;
  };

  /// Finds the slots and the functions of this module that calls of anchors go to, and the entries
  /// of the procedure linkage table that jump through the slots.
  void find_targets() {
    module_.for_each_slot([&](std::uint64_t slot, std::string_view symbol) {
      if (const auto call = anchor_call(symbol)) slots_.emplace(slot, *call);
    });
    module_.for_each_name([&](std::uint64_t address, std::string_view symbol) {
      if (const auto call = anchor_call(symbol)) targets_.emplace(address, *call);
    });
    for (const auto& [address, code] : module_.executable_segments()) {
      for (std::size_t at = 0; at + 6 <= code.size(); ++at) {
        const void* const hit = std::memchr(&code[at], 0xFF, code.size() - 5 - at);
        if (hit == nullptr) break;
        at = static_cast<std::size_t>(static_cast<const std::byte*>(hit) - code.data());
        const auto next = std::to_integer<unsigned>(code[at + 1]);
        if (next != 0x25 && next != 0x15) continue;
        const auto slot = slots_.find(slot_at(address, code, at));
        if (slot == slots_.end()) continue;
        if (next == 0x15) {
          sites_.push_back({address + at, &slot->second});
          continue;
        }
        // An entry of the table may start with endbr64 and a bnd prefix.
        const std::uint64_t entry = address + at;
        for (const std::uint64_t lead : {0U, 1U, 4U, 5U})
          targets_.emplace(entry - lead, slot->second);
      }
    }
  }

  void find_calls() {
    for (const auto& [address, code] : module_.executable_segments()) {
      for_each_near_branch(code, [&, start = address, bytes = code](std::size_t opcode) {
        if (bytes.size() - opcode < 5) return;
        const auto byte = std::to_integer<unsigned>(bytes[opcode]);
        if (byte != 0xE8 && byte != 0xE9) return;
        std::int32_t distance = 0;
        std::memcpy(&distance, &bytes[opcode + 1], sizeof distance);
        const auto target =
            targets_.find(start + opcode + 5 + static_cast<std::uint64_t>(std::int64_t{distance}));
        if (target != targets_.end()) sites_.push_back({start + opcode, &target->second});
      });
    }
  }

  /// Adds the cold parts of functions with anchors.
  void add_cold_parts(const std::map<std::uint64_t, std::vector<Site>>& by_function) {
    module_.for_each_piece([&](const NativeFunction& piece) {
      if (piece.symbol.find(".cold") == std::string_view::npos) return;
      const auto parent = module_.find(piece.address);
      if (parent && parent->address != piece.address && by_function.contains(parent->address))
        cold_parts_[parent->address].push_back(piece);
    });
  }

  void resolve(std::uint64_t address, const std::vector<Site>& sites) {
    std::vector<NativeFunction> pieces;
    if (const auto piece = module_.find_piece(address)) pieces.push_back(*piece);
    if (const auto cold = cold_parts_.find(address); cold != cold_parts_.end())
      pieces.insert(pieces.end(), cold->second.begin(), cold->second.end());
    std::ranges::sort(pieces, {}, &NativeFunction::address);
    const FunctionCode code(module_, pieces);
    ValueSearch search(code);
    const std::size_t first = found_.size();
    for (const Site& site : sites)
      if (code.starts_at(site.call)) resolve(address, site, search);
    fill_in_files(first);
  }

  void resolve(std::uint64_t function, const Site& site, ValueSearch& search) {
    const std::array<Argument, kArguments> arguments = {site.how->function_name, site.how->file,
                                                        site.how->line, site.how->message};
    Values places;
    for (std::size_t i = 0; i < kArguments; ++i) {
      const Argument& argument = arguments.at(i);
      if (argument.kind == Argument::Kind::general)
        places.at(i) = {Value::Kind::general, argument.in, 0};
      else if (argument.kind == Argument::Kind::stack)
        places.at(i) = {Value::Kind::stack, ZYDIS_REGISTER_RSP, argument.offset};
      else if (argument.kind == Argument::Kind::pointed_to)
        if (const auto object = search.stack_object(site.call, argument.in))
          places.at(i) = {Value::Kind::stack, object->in, object->number + argument.offset};
    }
    if (!places[kLineArgument].searched()) return;
    for (const Values& values : search.run(site.call, places)) add(function, site, values);
  }

  void add(std::uint64_t function, const Site& site, const Values& values) {
    const auto text = [&](const Value& value) {
      return value.kind == Value::Kind::constant
                 ? module_.text_at(static_cast<std::uint64_t>(value.number))
                 : std::string_view();
    };
    constexpr std::int64_t kMaxLine = 200'000;
    const std::int64_t line = values[kLineArgument].number;
    if (line <= 0 || line > kMaxLine) return;
    found_.push_back({.call = site.call,
                      .function = function,
                      .kind = site.how->kind,
                      .function_name = text(values[0]),
                      .file = text(values[1]),
                      .line = static_cast<std::uint32_t>(line),
                      .message = text(values[3])});
  }

  /// Gives the anchors of one function, from the one at `first` on, that lack a file the file of
  /// the others if that is only one. Those that still have none are left out.
  void fill_in_files(std::size_t first) {
    std::set<std::string_view> files;
    for (std::size_t i = first; i < found_.size(); ++i)
      if (!found_[i].file.empty()) files.insert(found_[i].file);
    if (files.size() == 1)
      for (std::size_t i = first; i < found_.size(); ++i)
        if (found_[i].file.empty()) found_[i].file = *files.begin();
    const auto start = found_.begin() + static_cast<std::ptrdiff_t>(first);
    found_.erase(std::remove_if(start, found_.end(),
                                [](const SourceAnchor& anchor) { return anchor.file.empty(); }),
                 found_.end());
  }

  const ModuleSymbols& module_;
  std::unordered_map<std::uint64_t, AnchorCall> slots_;
  std::unordered_map<std::uint64_t, AnchorCall> targets_;
  std::vector<Site> sites_;
  std::unordered_map<std::uint64_t, std::vector<NativeFunction>> cold_parts_;
  std::vector<SourceAnchor> found_;
};

}  // namespace

std::vector<SourceAnchor> find_anchors(const ModuleSymbols& module) {
  return AnchorFinder(module).run();
}

}  // namespace optrace
