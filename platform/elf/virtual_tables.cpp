#include "platform/elf/virtual_tables.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace optrace {
namespace {

constexpr std::string_view kTable = "_ZTV";
constexpr std::string_view kTypeInformation = "_ZTI";
constexpr std::string_view kPureFunction = "__cxa_pure_virtual";
// The type information of a class begins with a pointer to the virtual table of its own class and
// one to its name. Pointers to the type information of its bases follow.
constexpr std::uint64_t kBasesInTypeInformation = 16;

/// A virtual table or type information in the file.
struct Piece {
  NativeObject object;
  std::string_view name;  // With its prefix.
  bool is_table() const { return name.starts_with(kTable); }
};

std::vector<Piece> pieces_of(const ModuleSymbols& module) {
  std::vector<Piece> pieces;
  module.for_each_object([&](const NativeObject& object, std::string_view name) {
    if (name.starts_with(kTable) || name.starts_with(kTypeInformation))
      pieces.push_back({object, name});
  });
  std::ranges::stable_sort(pieces, {}, [](const Piece& piece) { return piece.object.address; });
  return pieces;
}

class ClassReader {
 public:
  explicit ClassReader(const ModuleSymbols& module) : module_(module), pieces_(pieces_of(module)) {}

  std::vector<PolymorphicClass> read() {
    for (const Piece& piece : pieces_) {
      if (piece.is_table() || !positions_.emplace(piece.object.address, classes_.size()).second)
        continue;
      PolymorphicClass& one = classes_.emplace_back();
      one.name = piece.name.substr(kTypeInformation.size());
      one.local = one.name.find("_GLOBAL__N_") != std::string_view::npos;
    }
    read_pointers();
    name_functions();
    for (Targets& targets : tables_) fill(targets);
    return std::move(classes_);
  }

 private:
  /// The pointers of a virtual table, or of its parts for several bases.
  using Targets = std::vector<DataPointer>;

  void read_pointers() {
    module_.for_each_data_pointer([&](const DataPointer& pointer) {
      const auto after = std::ranges::upper_bound(
          pieces_, pointer.place, {}, [](const Piece& piece) { return piece.object.address; });
      if (after == pieces_.begin()) return;
      const auto position = static_cast<std::size_t>(after - pieces_.begin()) - 1;
      const Piece& piece = pieces_[position];
      const std::uint64_t offset = pointer.place - piece.object.address;
      if (offset >= piece.object.size) return;
      if (piece.is_table())
        tables_[position].push_back(pointer);
      else if (offset >= kBasesInTypeInformation)
        add_base(classes_[positions_.at(piece.object.address)], pointer);
    });
  }

  void add_base(PolymorphicClass& to, const DataPointer& pointer) {
    const auto here = positions_.find(pointer.target);
    if (here != positions_.end()) {
      to.bases.push_back(classes_[here->second].name);
      to.base_positions.push_back(here->second);
    } else if (pointer.symbol.starts_with(kTypeInformation)) {
      to.bases.push_back(pointer.symbol.substr(kTypeInformation.size()));
      to.base_positions.push_back(PolymorphicClass::kElsewhere);
    }
  }

  /// Finds the names of functions that pointers without a symbol point to.
  void name_functions() {
    std::vector<std::uint64_t> addresses;
    for (const Targets& targets : tables_)
      for (const DataPointer& pointer : targets)
        if (pointer.symbol.empty()) addresses.push_back(pointer.target);
    std::ranges::sort(addresses);
    addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
    module_.for_each_name_at(addresses, [&](std::uint64_t address, std::string_view name) {
      names_.emplace(address, name);
    });
  }

  /// Adds the functions of a virtual table to its class. Linkers sort relocations by symbol.
  void fill(Targets& targets) {
    std::ranges::sort(targets, {}, &DataPointer::place);
    PolymorphicClass* owner = nullptr;
    for (const DataPointer& pointer : targets) {
      if (const auto type = positions_.find(pointer.target); type != positions_.end()) {
        owner = &classes_[type->second];
        owner->has_table = true;
        continue;
      }
      if (owner == nullptr) continue;
      std::string_view name = pointer.symbol;
      if (const auto known = names_.find(pointer.target); name.empty() && known != names_.end())
        name = known->second;
      if (name == kPureFunction)
        owner->has_pure_function = true;
      else if (name.starts_with("_Z"))
        owner->functions.push_back(name);
    }
  }

  const ModuleSymbols& module_;
  std::vector<Piece> pieces_;  // Sorted by address.
  std::vector<PolymorphicClass> classes_;
  std::unordered_map<std::uint64_t, std::size_t> positions_;  // By address of type information.
  std::vector<Targets> tables_{pieces_.size()};               // For each piece; empty for others.
  std::unordered_map<std::uint64_t, std::string_view> names_;
};

}  // namespace

std::vector<PolymorphicClass> read_virtual_tables(const ModuleSymbols& module) {
  return ClassReader(module).read();
}

}  // namespace optrace
