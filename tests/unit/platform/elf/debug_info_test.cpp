#include "platform/elf/debug_info.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/elf/debug_file.h"
#include "platform/elf/function_jumps.h"
#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"

using namespace optrace;

namespace {

// The lines of this source are numbered from 1. `outer` calls `callee` through two inlined
// functions, `callee` calls an imported one.
constexpr std::string_view kInliningSource = R"(extern "C" int imported(int);
__attribute__((noinline)) int callee(int x) {
  return imported(x) + 1;
}
namespace {
inline __attribute__((always_inline)) int hidden(int x) {
  return callee(x * 3) + 2;
}
}
namespace math {
inline __attribute__((always_inline)) int twice(int x) {
  int y = x + 1;
  return hidden(y) * 2;
}
}
int outer(int x) {
  int y = x - 7;
  return math::twice(y) + 3;
}
)";

struct Built {
  std::filesystem::path path;
  std::string build_id;
};

Built build(const std::filesystem::path& folder, const std::vector<std::string>& flags) {
  std::vector<std::string> all = {"-Wl,--build-id", "-fno-optimize-sibling-calls",
                                  "-Wl,--unresolved-symbols=ignore-all"};
  all.insert(all.end(), flags.begin(), flags.end());
  Built built{test::build_library(folder, "inlined.cpp", kInliningSource, all), {}};
  built.build_id = ModuleSymbols(built.path).build_id();
  REQUIRE_FALSE(built.build_id.empty());
  return built;
}

NativeFunction function_named(const ModuleSymbols& module, std::string_view symbol) {
  for (std::size_t i = 0; i < module.function_count(); ++i)
    if (module.function(i).symbol == symbol) return module.function(i);
  FAIL("no function " << symbol);
  return {};
}

// Returns the return address of the first call of `callee` in a function.
std::uint64_t return_address(const ModuleSymbols& module, std::string_view caller,
                             std::string_view callee) {
  const NativeFunction function = function_named(module, caller);
  for (std::uint64_t at = function.address + 1; at <= function.address + function.size; ++at) {
    const auto target = call_target_before(module, at);
    if (!target) continue;
    if (target->name == callee) return at;
    const auto called = target->address == 0 ? std::nullopt : module.find(target->address);
    if (called && called->symbol == callee) return at;
  }
  FAIL("no call of " << callee << " in " << caller);
  return 0;
}

void check_lines(DebugInfo& info, const ModuleSymbols& module,
                 const std::filesystem::path& source) {
  const auto callee = info.definition_at(function_named(module, "_Z6calleei").address);
  REQUIRE(callee);
  CHECK(callee->file == source.string());
  CHECK(callee->line == 2);
  const DebugCall direct = info.call_before(return_address(module, "_Z6calleei", "imported"));
  CHECK(direct.inlined.empty());
  CHECK(direct.line == 3);

  const DebugCall call = info.call_before(return_address(module, "_Z5outeri", "_Z6calleei"));
  REQUIRE(call.inlined.size() == 2);
  CHECK(call.inlined[0].symbol == "_ZN4math5twiceEi");
  CHECK(call.inlined[0].definition->line == 11);
  CHECK(call.inlined[0].call_line == 18);
  CHECK(call.inlined[1].symbol.empty());
  CHECK(call.inlined[1].name == "(anonymous namespace)::hidden");
  CHECK(call.inlined[1].definition->line == 6);
  CHECK(call.inlined[1].call_line == 13);
  CHECK(call.line == 7);
}

}  // namespace

TEST_CASE("debug info has the lines of definitions, calls and inlined functions", "[debug_info]") {
  const PrivateFolder folder;
  for (const char* const format : {"-gdwarf-5", "-gdwarf-4", "-gz=zlib"}) {
    INFO(format);
    const Built built = build(folder.path(), {"-g", format});
    const ModuleSymbols module(built.path);
    CHECK(module.has_debug_info());
    CHECK(debug_files(module) == std::vector{built.path});
    const auto info = DebugInfo::open(built.path, built.build_id);
    REQUIRE(info);
    check_lines(*info, module, folder.path() / "inlined.cpp");
    CHECK_FALSE(info->definition_at(0));
    CHECK_FALSE(info->definition_at(~std::uint64_t{0}));
    CHECK(info->call_before(0).line == 0);
  }
}

TEST_CASE("debug info of another build, or none, is not used", "[debug_info]") {
  const PrivateFolder folder;
  const Built plain = build(folder.path(), {});
  CHECK_FALSE(ModuleSymbols(plain.path).has_debug_info());
  CHECK(debug_files(ModuleSymbols(plain.path)).empty());
  CHECK_FALSE(DebugInfo::open(plain.path, plain.build_id));
  const Built debug = build(folder.path(), {"-g"});
  CHECK_FALSE(DebugInfo::open(debug.path, plain.build_id));
  CHECK_FALSE(DebugInfo::open(debug.path, ""));
  CHECK_FALSE(DebugInfo::open(folder.path() / "absent.so", debug.build_id));
  const Built without_id = {build(folder.path(), {"-g"}).path, ""};
  CHECK_FALSE(DebugInfo::open(without_id.path, without_id.build_id));
}

TEST_CASE("debug info in a separate file is found by its name and build-id", "[debug_info]") {
  const PrivateFolder folder;
  const Built built = build(folder.path(), {"-g"});
  const std::filesystem::path separate = folder.path() / ".debug" / "inlined.debug";
  std::filesystem::create_directory(folder.path() / ".debug");
  test::run({"objcopy", "--only-keep-debug", built.path.string(), separate.string()});
  test::run({"objcopy", "--strip-debug", "--add-gnu-debuglink=" + separate.string(),
             built.path.string()});
  const ModuleSymbols module(built.path);
  CHECK_FALSE(module.has_debug_info());
  CHECK(module.debug_link() == "inlined.debug");
  CHECK(debug_files(module) == std::vector{separate});
  const auto info = DebugInfo::open(built.path, built.build_id);
  REQUIRE(info);
  check_lines(*info, module, folder.path() / "inlined.cpp");

  // Another build with the same name.
  const std::filesystem::path other = folder.path() / "other";
  std::filesystem::create_directory(other);
  std::filesystem::copy_file(build(other, {"-g", "-O1"}).path, separate,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_FALSE(DebugInfo::open(built.path, built.build_id));
}

TEST_CASE("truncated and overwritten debug info is refused or read", "[debug_info]") {
  const PrivateFolder folder;
  const Built built = build(folder.path(), {"-g"});
  const std::string bytes = test::read_bytes(built.path);
  const ModuleSymbols module(built.path);
  const std::uint64_t outer = return_address(module, "_Z5outeri", "_Z6calleei");
  const std::filesystem::path broken = folder.path() / "broken.so";
  for (std::size_t step = 1; step < 64; ++step) {
    std::string changed = bytes;
    if (step % 2 == 0) changed.resize(bytes.size() * step / 64);
    for (std::size_t at = step * 13; at < changed.size(); at += 97 + step)
      changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(step * 37));
    test::write_bytes(broken, changed);
    const auto info = DebugInfo::open(broken, built.build_id);
    if (info == nullptr) continue;
    (void)info->definition_at(outer);
    (void)info->call_before(outer);
  }
}
