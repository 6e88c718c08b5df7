#include "platform/elf/module_symbols.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include <catch2/catch.hpp>
#include <elf.h>

#include "platform/elf/branch_targets.h"
#include "platform/elf/function_jumps.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "pytorch/functions/probed_functions.h"
#include "tests/unit/small_library.h"
#include "tracer/probes/probe_plan.h"
#include "tracer/probes/probe_selection.h"

using namespace optrace;
using namespace optrace::test;

namespace {

constexpr std::string_view kCallingSource = R"(
extern "C" int puts(const char*);
struct Shape { Shape(int); int size; };
Shape::Shape(int n) : size(n) { puts("shape"); }

// Splits into a hot and a cold part.
extern "C" int checked(int n) {
  if (n < 0) throw n;
  return n * 3;
}
static __attribute__((noinline)) int local_step(int n) { puts("step"); return n + 1; }
extern "C" int steps(int n) { return local_step(n) + local_step(n + 2); }

// Tail calls: to a function of its own, through the PLT, through a pointer.
extern "C" int tail_direct(int n) { return local_step(n * 2); }
extern "C" int tail_plt(const char* text) { return puts(text + 1); }
extern "C" int tail_pointer(int (*to)(int), int n) { return to(n + 1); }

// A switch jumps indirectly, but not out of the function.
extern "C" int choose(int n) {
  switch (n) {
    case 0: puts("a"); puts("x"); return 1;
    case 1: puts("b"); puts("y"); return 7;
    case 2: puts("c"); puts("z"); return 9;
    case 3: puts("d"); puts("u"); return 2;
    case 4: puts("e"); puts("v"); return 8;
    case 5: puts("f"); puts("w"); return 3;
  }
  return puts("none") + 1;
}
)";

NativeFunction named(const ModuleSymbols& module, std::string_view symbol) {
  for (std::size_t i = 0; i < module.function_count(); ++i) {
    if (module.function(i).symbol == symbol) return module.function(i);
  }
  FAIL("no function " << symbol);
  return {};
}

std::string refusal(const std::filesystem::path& path) {
  try {
    const ModuleSymbols module(path);
    return "no error";
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::usage);
    CHECK_FALSE(error.remedy().empty());
    return error.what();
  }
}

}  // namespace

TEST_CASE("functions of a library are found by address") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "steps.cpp", kCallingSource));
  CHECK_FALSE(module.stripped());
  CHECK(module.build_id().size() == 40);

  const NativeFunction steps = named(module, "steps");
  REQUIRE(steps.size > 4);
  CHECK(module.find(steps.address)->symbol == "steps");
  CHECK(module.find(steps.address + steps.size - 1)->symbol == "steps");
  CHECK(module.find_piece(steps.address + steps.size)->symbol != "steps");
  CHECK_FALSE(module.find(0));
  CHECK_FALSE(module.find(~std::uint64_t{0}));
  CHECK(*module.last_start(steps.address + 1) == steps.address);
  CHECK(*module.next_start(steps.address) > steps.address);

  SECTION("a static function has a source file, an exported one needs none") {
    const NativeFunction local = named(module, "_ZL10local_stepi");
    CHECK(local.local);
    CHECK(module.source_file(local) == "steps.cpp");
    CHECK(module.source_file(steps).empty());
  }
  SECTION("code in a cold part belongs to the function that it was split from") {
    const NativeFunction part = named(module, "checked.cold");
    CHECK(module.find_piece(part.address)->symbol == "checked.cold");
    CHECK(module.find(part.address + 1)->symbol == "checked");
    CHECK(module.is_cold_part(part, named(module, "checked")));
    CHECK_FALSE(module.is_cold_part(part, steps));
    std::set<std::string_view> names;
    module.for_each_name([&](std::uint64_t, std::string_view name) { names.insert(name); });
    CHECK(names.contains("checked"));
    CHECK_FALSE(names.contains("checked.cold"));
  }
  SECTION("of a constructor's names C1 is kept, and the other is known") {
    const NativeFunction constructor = named(module, "_ZN5ShapeC1Ei");
    std::vector<std::string_view> names;
    module.for_each_name_at(std::vector{constructor.address},
                            [&](std::uint64_t, std::string_view name) { names.push_back(name); });
    CHECK(names.size() == 2);
  }
  SECTION("call frame information tells entries from places behind a push") {
    CHECK(module.return_address_on_top(steps.address) == true);
    CHECK(module.return_address_on_top(steps.address + steps.size / 2) == false);
    CHECK_FALSE(module.return_address_on_top(0));
  }
  SECTION("libraries that it needs") {
    const auto needed = module.needed();
    CHECK(std::ranges::find(needed, "libc.so.6") != needed.end());
  }
}

TEST_CASE("a stripped library keeps exported names and the bounds of all functions") {
  const PrivateFolder folder;
  const auto whole = build_library(folder.path(), "steps.cpp", kCallingSource);
  const ModuleSymbols named_module(whole);
  const ModuleSymbols module(stripped_copy(whole));
  CHECK(module.stripped());
  CHECK(module.build_id() == named_module.build_id());
  CHECK(named(module, "steps").size == named(named_module, "steps").size);
  const NativeFunction local = named(named_module, "_ZL10local_stepi");
  const auto found = module.find(local.address + 3);
  REQUIRE(found);
  CHECK(found->address == local.address);
  CHECK(found->size == local.size);
  CHECK(found->symbol.empty());

  CHECK(stripped_warning(module).empty());
  auto torch = whole;
  torch.replace_filename("libtorch_cpu.so");
  std::filesystem::copy_file(module.path(), torch);
  CHECK_THAT(stripped_warning(ModuleSymbols(torch)),
             Catch::Contains("libtorch_cpu.so is stripped"));
}

TEST_CASE("a library without a build-id has none") {
  const PrivateFolder folder;
  const ModuleSymbols module(
      build_library(folder.path(), "plain.cpp", "int f() { return 1; }", {"-Wl,--build-id=none"}));
  CHECK(module.build_id().empty());
  CHECK(named(module, "_Z1fv").size > 0);
}

TEST_CASE("the ways out of a function are found by disassembly") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "steps.cpp", kCallingSource));
  const auto jumps = [&](std::string_view name) { return find_jumps(module, named(module, name)); };

  CHECK(jumps("tail_direct").tail_calls == std::vector{named(module, "_ZL10local_stepi").address});
  CHECK(jumps("tail_plt").named_tail_calls == std::vector<std::string_view>{"puts"});
  CHECK(jumps("tail_pointer").jumps_indirectly);
  CHECK_FALSE(jumps("choose").jumps_indirectly);
  CHECK_FALSE(jumps("steps").jumps_indirectly);
  CHECK(jumps("steps").tail_calls.empty());
  CHECK_FALSE(jumps("steps").enters_itself);
  CHECK(jumps("checked").tail_calls.empty());

  SECTION("without a PLT the jump goes through the GOT") {
    const ModuleSymbols direct(build_library(folder.path(), "direct.cpp", kCallingSource,
                                             {"-fno-plt", "-fcf-protection"}));
    const FunctionJumps found = find_jumps(direct, named(direct, "tail_plt"));
    CHECK(found.named_tail_calls == std::vector<std::string_view>{"puts"});
    CHECK_FALSE(found.jumps_indirectly);
  }
  SECTION("a loop to the own entry, also from the cold part") {
    const ModuleSymbols loops(build_library(folder.path(), "loops.s", R"(
        .text
        .globl turns
        .type turns, @function
turns:  .cfi_startproc
        dec %edi
        jnz turns
        ret
        .cfi_endproc
        .size turns, .-turns
        .globl detour
        .type detour, @function
detour: dec %edi
        jz detour.cold
        ret
        .size detour, .-detour
        .type detour.cold, @function
detour.cold:
        dec %edi
        jmp detour
        .size detour.cold, .-detour.cold
        .section .note.GNU-stack,"",@progbits
)"));
    CHECK(find_jumps(loops, named(loops, "turns")).enters_itself);
    const FunctionJumps detour = find_jumps(loops, named(loops, "detour"));
    CHECK(detour.enters_itself);
    CHECK(detour.tail_calls.empty());
  }
}

TEST_CASE("what is no library of this processor is refused with a reason") {
  using Catch::Contains;
  const PrivateFolder folder;
  const auto library = build_library(folder.path(), "steps.cpp", kCallingSource);
  const std::string whole = read_bytes(library);
  const auto path = folder.path() / "changed.so";

  std::string bytes = whole;
  const std::uint16_t arm = EM_AARCH64;
  std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &arm, sizeof arm);
  write_bytes(path, bytes);
  CHECK_THAT(refusal(path), Contains("another processor: AArch64"));

  write_bytes(path, "#!/bin/sh\n");
  CHECK_THAT(refusal(path), Contains("not an ELF file"));
  write_bytes(path, whole.substr(0, whole.size() / 2));
  CHECK_THAT(refusal(path), Contains("truncated"));
  CHECK_THAT(refusal(folder.path() / "absent.so"), Contains("No such file"));
}

TEST_CASE("headers that name one part many times cost no more than the file's size") {
  using Catch::Contains;
  const PrivateFolder folder;
  const std::string whole = read_bytes(build_library(folder.path(), "steps.cpp", kCallingSource)) +
                            std::string(4 << 20, '\xE8');
  const auto path = folder.path() / "changed.so";
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);

  std::string bytes = whole;
  const auto add_segments = [&](std::size_t count, std::uint64_t size) {
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    std::memcpy(segments.data(), bytes.data() + header.e_phoff,
                segments.size() * sizeof(Elf64_Phdr));
    for (std::size_t i = 0; i < count; ++i)
      segments.push_back({PT_LOAD, PF_X, 0, 0x10000000 + i * 0x1000, 0, size, size, 0x1000});
    Elf64_Ehdr changed = header;
    changed.e_phoff = bytes.size();
    changed.e_phnum = static_cast<Elf64_Half>(segments.size());
    bytes.append(reinterpret_cast<const char*>(segments.data()),
                 segments.size() * sizeof(Elf64_Phdr));
    std::memcpy(bytes.data(), &changed, sizeof changed);
    write_bytes(path, bytes);
  };
  add_segments(60000, whole.size());
  CHECK_THAT(refusal(path), Contains("segments overlap"));
  bytes = whole;
  add_segments(60000, 0);
  CHECK_THAT(refusal(path), Contains("too many segments"));

  SECTION("code that lies far apart needs no larger map") {
    bytes = whole;
    add_segments(1, 16);
    const ModuleSymbols module(path);
    CHECK_NOTHROW(BranchTargets::search(module));
  }
  SECTION("a name is cut where it is longer than any that a compiler writes") {
    bytes = whole;
    Elf64_Shdr sections[64];
    REQUIRE(header.e_shnum <= std::size(sections));
    std::memcpy(sections, bytes.data() + header.e_shoff, header.e_shnum * sizeof *sections);
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB) continue;
      Elf64_Shdr& names = sections[sections[i].sh_link];
      names.sh_offset = whole.size() - (4 << 20);
      names.sh_size = 4 << 20;
    }
    std::memcpy(bytes.data() + header.e_shoff, sections, header.e_shnum * sizeof *sections);
    write_bytes(path, bytes);
    const ModuleSymbols module(path);
    REQUIRE(module.function_count() > 0);
    for (std::size_t i = 0; i < module.function_count(); ++i)
      CHECK(module.function(i).symbol.size() <= 32 << 10);
  }
}

TEST_CASE("a spoiled library gives an error or some functions, never a crash") {
  const PrivateFolder folder;
  const auto library = build_library(folder.path(), "steps.cpp", kCallingSource);
  const std::string whole = read_bytes(library);
  const auto path = folder.path() / "spoiled.so";
  std::mt19937 engine(7);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(engine);
  };
  // The regions to damage: the start of the file, the section headers and the sections.
  std::vector<std::pair<std::size_t, std::size_t>> regions = {{0, 1024}};
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  regions.emplace_back(header.e_shoff, whole.size() - header.e_shoff);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, whole.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && section.sh_size > 0) {
      regions.emplace_back(section.sh_offset, section.sh_size);
    }
  }
  std::size_t read = 0;
  constexpr std::size_t kRounds = 2000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    for (std::size_t flaws = 1 + below(4); flaws > 0; --flaws) {
      const auto& [offset, size] = regions[below(regions.size())];
      const std::size_t at = offset + below(size);
      const char values[] = {'\0', '\xFF', '\x7F', static_cast<char>(below(256))};
      for (std::size_t i = at; i < std::min(at + 1 + below(8), bytes.size()); ++i) {
        bytes[i] = values[below(sizeof values)];
      }
    }
    if (round % 8 == 0) bytes.resize(below(bytes.size()) + 1);
    write_bytes(path, bytes);
    try {
      const ModuleSymbols module(path);
      std::uint64_t sum = module.needed().size();
      const BranchTargets branch_targets = BranchTargets::search(module);
      ProbePlanner planner(module, branch_targets);
      for (std::size_t i = 0; i < std::min<std::size_t>(module.function_count(), 50); ++i) {
        const NativeFunction function = module.function(i);
        sum += module.find(function.address + function.size / 2).has_value();
        sum += module.source_file(function).size();
        sum += find_jumps(module, function).tail_calls.size();
        sum += module.return_address_on_top(function.address).value_or(false);
        planner.add(function.address);
      }
      sum += select_functions(module).size() + planner.bytes(path).size();
      read += sum > 0 ? 1U : 0U;
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
    }
  }
  CHECK(read > kRounds / 4);
}

TEST_CASE("the part with code for GPUs is known") {
  const PrivateFolder folder;
  constexpr std::string_view kSource = R"(
        .section .nv_fatbin, "a", @progbits
        .ascii "code for GPUs"
        .section .note.GNU-stack,"",@progbits
)";
  const std::filesystem::path path = build_library(folder.path(), "gpu.s", kSource);
  const FilePart part = ModuleSymbols(path).gpu_code();
  CHECK(read_bytes(path).substr(part.offset, part.size) == "code for GPUs");
  CHECK(ModuleSymbols(std::filesystem::path(OPTRACE_PROBE_TARGETS)).gpu_code().size == 0);
}

TEST_CASE("starts are those of functions and of FDEs, ascending") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "calling.cpp", kCallingSource));
  const std::vector<std::uint64_t> starts = module.starts();
  CHECK(std::ranges::is_sorted(starts));
  CHECK(std::ranges::adjacent_find(starts) == starts.end());
  for (std::size_t i = 0; i < module.function_count(); ++i)
    CHECK(std::ranges::binary_search(starts, module.function(i).address));
  // The names of a stripped library are gone, but not its FDEs.
  const ModuleSymbols stripped(stripped_copy(module.path()));
  const NativeFunction step = named(module, "_ZL10local_stepi");
  CHECK(std::ranges::binary_search(stripped.starts(), step.address));
}

TEST_CASE("functions are selected by their names") {
  const auto selected = [](std::string_view symbol) { return is_probed(symbol); };
  CHECK(selected("_ZN2at4_ops6conv2d4callERKNS_6TensorES4_"));
  CHECK(selected("_ZN2at4_ops6conv2d10redispatchEN3c1014DispatchKeySetERKNS_6TensorE"));
  CHECK_FALSE(selected("_ZN2at4_opsL26create_conv2d_typed_handleEv"));
  CHECK(selected("_ZN2at6native12conv2d_symintERKNS_6TensorE"));
  CHECK(selected("_ZN6fbgemm12fbgemmPackedINS_11PackAMatrixIhiEEEEvv"));
  CHECK_FALSE(selected("_ZN6fbgemm22fbgemmInstructionSetEv"));
  CHECK(selected("_ZN7qnnpack13qnnpackLinearEv"));
  CHECK(selected("xnn_run_operator"));
  CHECK(
      selected("_ZZZN2at6native12_GLOBAL__N_110add_kernelERNS_18TensorIteratorBaseEENKUlvE_clEv"));
  CHECK(selected("_ZN2at12_GLOBAL__N_112_GLOBAL__N_124wrapper_CPU__convolutionERKNS_6TensorE"));
  CHECK(selected("_ZN5torch8autograd12VariableType12_GLOBAL__N_111convolutionEv"));
  CHECK(selected("_ZN5torch8autograd9generated20ConvolutionBackward05applyEOSt6vectorE"));
  CHECK_FALSE(selected("_ZN5torch8autograd9generated20ConvolutionBackward0D0Ev"));
  CHECK(selected("_ZN5torch8autogradL18THPVariable_conv2dEP7_objectS2_S2_"));
  CHECK(selected("_Z19THPFunction_do_callP7_object"));
  CHECK(selected("dnnl_primitive_execute"));
  CHECK_FALSE(selected("dnnl_primitive_execute_later"));
  CHECK(
      selected("_ZNK4dnnl4impl3cpu3x6427jit_avx512_convolution_fwd_tILi0EE15execute_forwardERKNS0_"
               "10exec_ctx_tE"));
  CHECK(selected("sgemm_"));
  CHECK(selected("zgesdd_"));
  CHECK_FALSE(selected("qgemm_"));
  CHECK_FALSE(selected("vmsplice"));
  CHECK(selected("vmsExp"));
  CHECK(selected("cudnnBackendExecute"));
  CHECK(selected("GOMP_parallel"));
  CHECK_FALSE(selected("GOMP_barrier"));
  CHECK(selected("_ZN2at8internal15invoke_parallelIZNS_12parallel_forIvEEvlllS8_._omp_fn.0"));
  CHECK(selected("level1_thin_thread._omp_fn.0"));
  CHECK_FALSE(selected("_ZNSt6vectorIiSaIiEE9push_backERKi"));
  CHECK_FALSE(selected("malloc"));
  CHECK_FALSE(selected(""));
  CHECK_FALSE(selected("_Z"));
  CHECK_FALSE(selected("_ZN99999999999999999999999at"));
}

TEST_CASE("the wheel's own libraries give what is known about them") {
  const auto libraries = torch_libraries();
  if (libraries.empty()) return;
  const ModuleSymbols module(libraries / "libtorch_cpu.so");
  CHECK_FALSE(module.stripped());
  CHECK(module.function_count() > 200'000);
  CHECK(select_functions(module).size() > 40'000);
  const NativeFunction conv2d = named(
      module,
      "_ZN2at4_ops6conv2d4callERKNS_6TensorES4_RKSt8optionalIS2_EN3c108ArrayRefINS9_6SymIntEEESC_"
      "SC_SB_");
  CHECK(module.find(conv2d.address + 5)->symbol == conv2d.symbol);
  const ModuleSymbols python(libraries / "libtorch_python.so");
  const NativeFunction binding =
      named(python, "_ZN5torch8autogradL18THPVariable_conv2dEP7_objectS2_S2_");
  CHECK_THAT(std::string(python.source_file(binding)), Catch::StartsWith("python_torch_functions"));
}
