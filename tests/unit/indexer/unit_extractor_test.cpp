// Tests the extractor in the index worker, on small sources.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include "indexer/frontend/driver.h"
#include "indexer/frontend/worker_protocol.h"
#include "platform/files/private_folder.h"
#include "pytorch/symbols/symbol_key.h"

using namespace optrace;

namespace {

/// A source file `a.cpp` with a header `a.h`, and the worker's findings.
class Extracted {
 public:
  explicit Extracted(const std::string& source, const std::string& header = "",
                     const std::vector<std::string>& arguments = {"-x", "c++", "-std=c++17"},
                     std::uint64_t memory_limit = 0)
      : source_(source), header_(header) {
    std::ofstream(folder_.path() / "a.cpp") << source;
    std::ofstream(folder_.path() / "a.h") << header;
    Driver driver({.worker = OPTRACE_INDEX_WORKER},
                  {{{folder_.path().string(), ""}}, {}, memory_limit});
    failed_ = driver.run(
        {{(folder_.path() / "a.cpp").string(), "a.cpp", arguments, "", ""}},
        [&](std::size_t, const std::string& result) { found_ = parse_findings(result); },
        [](std::size_t, std::size_t) {});
  }

  const std::vector<FailedUnit>& failed() const { return failed_; }
  const std::vector<IndexContents::Function>& functions() const { return found_.functions; }
  const std::vector<std::string>& inclusions() const { return found_.inclusions; }

  const IndexContents::Function* find(const std::string& symbol) const {
    const auto found = std::find_if(functions().begin(), functions().end(),
                                    [&](const auto& one) { return one.symbol == symbol; });
    return found == functions().end() ? nullptr : &*found;
  }

  /// Returns the text of the line at which the function begins; empty if it was not found.
  std::string line(const std::string& symbol) const {
    const auto* function = find(symbol);
    return function == nullptr ? "" : text(function->file, function->line);
  }

  /// Returns the text of each line on which `caller` calls `callee`, without leading blanks.
  std::set<std::string> calls(const std::string& caller, const std::string& callee,
                              CallKind kind = CallKind::call) const {
    std::set<std::string> lines;
    for (const auto& function : functions()) {
      for (const auto& call : function.calls) {
        if (function.symbol == caller && call.callee == callee && call.kind == kind) {
          const std::string line = text(function.file, call.line);
          lines.insert(line.substr(std::min(line.find_first_not_of(' '), line.size())));
        }
      }
    }
    return lines;
  }

  /// Returns `kind name key function | text of the line`, sorted. The texts are not trimmed.
  std::vector<std::string> registrations() const {
    constexpr const char* kKinds[] = {"definition", "kernel", "fallthrough", "fallback", "stub"};
    std::vector<std::string> lines;
    lines.reserve(found_.registrations.size());
    for (const auto& one : found_.registrations) {
      lines.push_back(fmt::format("{} {} {} {} | {}", kKinds[static_cast<int>(one.kind)], one.name,
                                  one.key, one.function, text(one.file, one.line)));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }

 private:
  std::string text(const std::string& file, std::uint32_t number) const {
    std::string_view rest = file == "a.cpp" ? source_ : header_;
    for (; number > 1; --number) {
      rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    }
    return std::string(rest.substr(0, rest.find('\n')));
  }

  PrivateFolder folder_;
  std::string source_;
  std::string header_;
  UnitFindings found_;
  std::vector<FailedUnit> failed_;
};

using Lines = std::set<std::string>;

}  // namespace

TEST_CASE("extractor: functions by symbol, at the line of their name, with their calls") {
  const Extracted unit(R"(namespace at { namespace native {
void leaf(int);
void leaf(double) {}
static void
local(int x) {
  leaf(x); leaf(1.0);
}
namespace { void hidden() { local(1); } }
struct Tensor {
  Tensor() { hidden(); }
  ~Tensor() { hidden(); }
  Tensor& operator+=(const Tensor& other) { hidden(); return *this; }
  operator bool() const { return true; }
  void method() const;
};
void Tensor::method() const { hidden(); }
void user(Tensor a) {
  a += Tensor();
  a
    .method();
  if (a) local(2);
}
}}
extern "C" void sgemm_() { at::native::leaf(1.0); }
)");
  CHECK(unit.failed().empty());
  CHECK(unit.line("_ZN2at6native4leafEd") == "void leaf(double) {}");
  CHECK(unit.line("_ZN2at6native4leafEi").empty());  // Only a declaration.
  CHECK(unit.line("_ZN2at6native5localEi") == "local(int x) {");
  CHECK(unit.line("_ZN2at6native12_GLOBAL__N_16hiddenEv") ==
        "namespace { void hidden() { local(1); } }");
  CHECK(unit.line(canonical_symbol("_ZN2at6native6TensorC2Ev")) == "  Tensor() { hidden(); }");
  CHECK(unit.line(canonical_symbol("_ZN2at6native6TensorD0Ev")) == "  ~Tensor() { hidden(); }");
  CHECK(unit.line("_ZNK2at6native6TensorcvbEv") == "  operator bool() const { return true; }");
  CHECK(unit.line("_ZNK2at6native6Tensor6methodEv") == "void Tensor::method() const { hidden(); }");
  CHECK(unit.line("sgemm_") == R"(extern "C" void sgemm_() { at::native::leaf(1.0); })");

  CHECK(unit.calls("_ZN2at6native5localEi", "_ZN2at6native4leafEi") ==
        Lines{"leaf(x); leaf(1.0);"});
  const std::string user = "_ZN2at6native4userENS0_6TensorE";
  CHECK(unit.calls(user, "_ZN2at6native6TensorpLERKS1_") == Lines{"a += Tensor();"});
  // In a chain over several lines, the line is that of the called name.
  CHECK(unit.calls(user, "_ZNK2at6native6Tensor6methodEv") == Lines{".method();"});
  CHECK(unit.calls(user, "_ZN2at6native5localEi") == Lines{"if (a) local(2);"});
}

TEST_CASE("extractor: a macro's functions and calls are where the macro is used") {
  const Extracted unit(R"(void leaf(int);
#define DEFINE(name) \
  void name() { leaf(0); }
#define CALL(what) \
  do { what; } while (0)
DEFINE(first)
void second() {
  CALL(
    leaf(1)
  );
}
)");
  CHECK(unit.line("_Z5firstv") == "DEFINE(first)");
  CHECK(unit.calls("_Z5firstv", "_Z4leafi") == Lines{"DEFINE(first)"});
  CHECK(unit.calls("_Z6secondv", "_Z4leafi") == Lines{"leaf(1)"});
}

TEST_CASE("extractor: templates and members of class templates are found by their instances") {
  const Extracted unit(R"(struct Tensor {};
template <typename T> struct Params {
  bool use(const Tensor&) const { return true; }
  template <typename U> U other(U) const;
  Params operator+(const Params&) const;
};
template <typename T> template <typename U> U Params<T>::other(U value) const {
  use(Tensor());
  return value;
}
void resize(long);
void resize(int);
template <typename T> void check(T, const Params<T>& params);
template <typename T> void select(T value, const Params<T>& params, const Params<T>* pointer) {
  params.use(value);
  pointer->use(value);
  params
    .template other<T>(value);
  check(value, params);
  check<T>(value, params);
  resize(value);
}
template <> void select<Tensor>(Tensor, const Params<Tensor>&, const Params<Tensor>*) { resize(1); }
void user(Params<int> params) { select(1, params, &params); }
)");
  const auto key = [](const char* mangled) { return function_key(mangled); };
  const std::string use = key("_ZNK6ParamsIiE3useERK6Tensor");
  const std::string other = key("_ZNK6ParamsIiE5otherIiEET_S2_");
  const std::string check = key("_Z5checkIiEvT_RK6ParamsIS0_E");
  const std::string select = key("_Z6selectIiEvT_RK6ParamsIS0_EPS3_");
  CHECK(unit.line(use) == "  bool use(const Tensor&) const { return true; }");
  CHECK(unit.line(other) ==
        "template <typename T> template <typename U> U Params<T>::other(U value) const {");
  CHECK(unit.calls(other, use) == Lines{"use(Tensor());"});
  CHECK(unit.line(select).starts_with("template <typename T> void select("));
  CHECK(unit.calls(select, use) == Lines{"params.use(value);", "pointer->use(value);"});
  CHECK(unit.calls(select, other) == Lines{".template other<T>(value);"});
  CHECK(unit.calls(select, check) == Lines{"check(value, params);", "check<T>(value, params);"});
  // The overload depends on the instance.
  CHECK(unit.calls(select, "_Z6resizel") == Lines{"resize(value);"});
  CHECK(unit.calls(select, "_Z6resizei").count("resize(value);") == 1);
  CHECK(unit.calls("_Z4user6ParamsIiE", select) ==
        Lines{"void user(Params<int> params) { select(1, params, &params); }"});
  // An explicit specialization has its own symbol and line.
  const std::string special = canonical_symbol("_Z6selectI6TensorEvT_RK6ParamsIS1_EPS4_");
  CHECK(unit.line(special).starts_with("template <> void select<Tensor>("));
  CHECK(unit.calls(special, "_Z6resizei").size() == 1);
  CHECK(unit.calls(special, use).empty());
}

TEST_CASE("extractor: lambdas are functions, and their calls those of the function around them") {
  const Extracted unit(R"(void leaf(int);
template <typename F> void parallel_for(F f) { f(1); }
void user() {
  auto named = [](int x) {
    leaf(x);
  };
  named(0);
  parallel_for([](int x) { leaf(x + 1); });
  [&] {
    [&] { leaf(2); }();
  }();
  auto generic = [](auto x) { leaf(x); };
  generic(3);
}
template <typename T> void in_template(T x) {
  auto run = [&](const T& y) { leaf(y); };
  run(x);
  return [&] { leaf(x); }();
}
void instance() { in_template(1); }
)");
  const std::string first = function_key("_ZZ4uservENKUliE_clEi");
  const std::string second = function_key("_ZZ4uservENKUliE0_clEi");
  const std::string outer = function_key("_ZZ4uservENKUlvE_clEv");
  const std::string inner = function_key("_ZZZ4uservENKUlvE_clEvENKUlvE_clEv");
  CHECK(unit.line(first) == "  auto named = [](int x) {");
  CHECK(unit.line(second) == "  parallel_for([](int x) { leaf(x + 1); });");
  CHECK(unit.line(outer) == "  [&] {");
  CHECK(unit.line(inner) == "    [&] { leaf(2); }();");
  CHECK(unit.calls(first, "_Z4leafi") == Lines{"leaf(x);"});
  CHECK(unit.calls(outer, inner) == Lines{"[&] { leaf(2); }();"});
  CHECK(unit.calls("_Z4userv", first) == Lines{"named(0);"});
  CHECK(unit.calls("_Z4userv", outer) == Lines{"[&] {"});
  CHECK(unit.calls("_Z4userv", "_Z4leafi").count("leaf(x);") == 1);
  CHECK(unit.calls("_Z4userv", function_key("_ZZ4uservENKUlT_E_clIiEEDaS_")) ==
        Lines{"generic(3);"});

  const std::string around = function_key("_Z11in_templateIiEvT_");
  const std::string run = function_key("_ZZ11in_templateIiEvT_ENKUlRKiE_clES1_");
  const std::string last = function_key("_ZZ11in_templateIiEvT_ENKUlvE_clEv");
  CHECK(unit.line(run) == "  auto run = [&](const T& y) { leaf(y); };");
  CHECK(unit.line(last) == "  return [&] { leaf(x); }();");
  CHECK(unit.calls(around, run) == Lines{"run(x);"});
  CHECK(unit.calls(around, last) == Lines{"return [&] { leaf(x); }();"});
}

TEST_CASE("extractor: headers of the tree are indexed with a unit, others and std are not") {
  const Extracted unit(R"(#include <vector>
#include "a.h"
void user(std::vector<int>& all) {
  all.push_back(1);
  in_header(2);
}
)",
                       "#pragma once\ninline int in_header(int x) { return x; }\n");
  CHECK(unit.line("_Z9in_headeri") == "inline int in_header(int x) { return x; }");
  REQUIRE(unit.functions().size() == 2);
  for (const auto& function : unit.functions()) {
    CHECK((function.file == "a.cpp" || function.file == "a.h"));
    for (const auto& call : function.calls) {
      CHECK(call.callee == "_Z9in_headeri");
    }
  }
}

TEST_CASE("extractor: functions around errors are kept") {
  const Extracted unit(R"(#include "absent.h"
void leaf();
void before() { leaf(); unknown(1); leaf(2); }
Missing broken() { leaf(); }
void after(Absent x) { leaf(); }
void last() { leaf(); }
)");
  CHECK(unit.failed().empty());
  CHECK_FALSE(unit.calls("_Z6beforev", "_Z4leafv").empty());
  CHECK_FALSE(unit.calls("_Z4lastv", "_Z4leafv").empty());
}

namespace {

// A short version of the declarations in PyTorch's headers that the extractor recognises.
constexpr const char* kLibraryHeader = R"(#pragma once
namespace c10 {
enum class DispatchKey { CPU, CUDA };
enum class DeviceType { CPU, CUDA };
struct OperatorHandle {};
template <class F, F* f> struct CompileTimeFunctionPointer {};
}
namespace torch {
struct CppFunction {
  template <class F> CppFunction(F&&);
  static CppFunction makeFallthrough();
  template <void (*f)(const c10::OperatorHandle&)> static CppFunction makeFromBoxedFunction();
};
template <class F> CppFunction dispatch(c10::DispatchKey, F&&);
template <bool enabled> struct SelectiveStr { constexpr explicit SelectiveStr(const char*); };
struct Library {
  template <class S> Library& def(S&&) &;
  template <class S, class F> Library& def(S&&, F&&) &;
  template <class N, class F> Library& impl(N, F&&) &;
  template <class F> Library& fallback(F&&) &;
};
}
constexpr bool allowed(const char*) { return true; }
#define TORCH_FN(f) c10::CompileTimeFunctionPointer<decltype(f), f>()
#define TORCH_SELECTIVE_NAME(n) torch::SelectiveStr<allowed(n)>(n)
#define TORCH_LIBRARY(ns, m) static void TORCH_LIBRARY_init_##ns(torch::Library& m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) \
  static void TORCH_LIBRARY_FRAGMENT_init_##ns##_4(torch::Library& m)
#define TORCH_LIBRARY_IMPL(ns, k, m) \
  static void TORCH_LIBRARY_IMPL_init_##ns##_##k##_3(torch::Library& m)
)";

}  // namespace

TEST_CASE("extractor: registrations of TORCH_LIBRARY blocks") {
  const Extracted unit(R"source(#include "a.h"
namespace {
int add(int);
template <bool relu> int qadd(int);
void boxed(const c10::OperatorHandle&);
template <c10::DeviceType device> struct Wrap { static int call(int); };
}
TORCH_LIBRARY(my_ops, m) {
  m.def("add.Tensor (Tensor a) -> Tensor");
  m.def("with_function", &add);
  m.def("with_key(int a) -> int", torch::dispatch(c10::DispatchKey::CPU, add));
  m.impl("add.Tensor", add);
}
TORCH_LIBRARY_FRAGMENT(my_ops, m) { m.def(TORCH_SELECTIVE_NAME("sub(Tensor a, str b=\",\") -> ()")); }
#define OP(name) m.impl(#name, static_cast<decltype(&qadd<false>)>(add));
TORCH_LIBRARY_IMPL(my_ops, CPU, m) {
  m.impl(TORCH_SELECTIVE_NAME("my_ops::add.Tensor"),
         TORCH_FN(add));
  m.impl("q", qadd<true>);
  OP(cast)
  m.impl("lambda", [](int x) { return x; });
  m.impl("of_key", torch::dispatch(c10::DispatchKey::CUDA, &add));
  m.impl("wrapped", &Wrap<c10::DeviceType::CUDA>::call);
  m.impl("through", torch::CppFunction::makeFallthrough());
  m.impl("one \t two", add);
}
TORCH_LIBRARY_IMPL(_, AutogradCPU, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed>());
}
TORCH_LIBRARY_IMPL(_, Autocast, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
)source",
                       kLibraryHeader);
  const std::string here = "_ZN12_GLOBAL__N_1";
  // NOLINTBEGIN(bugprone-suspicious-missing-comma)
  CHECK(unit.registrations() ==
        std::vector<std::string>{
            "definition my_ops::add.Tensor   |   m.def(\"add.Tensor (Tensor a) -> Tensor\");",
            "definition my_ops::sub   | TORCH_LIBRARY_FRAGMENT(my_ops, m) { "
            "m.def(TORCH_SELECTIVE_NAME(\"sub(Tensor a, str b=\\\",\\\") -> ()\")); }",
            "definition my_ops::with_function  " + here +
                "3addEi |   m.def(\"with_function\", &add);",
            "definition my_ops::with_key  " + here +
                "3addEi |   m.def(\"with_key(int a) -> int\", "
                "torch::dispatch(c10::DispatchKey::CPU, add));",
            "fallback _ AutogradCPU " + here +
                "5boxedERKN3c1014OperatorHandleE |   "
                "m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed>());",
            "fallthrough _ AutocastCUDA  | TORCH_LIBRARY_IMPL(_, Autocast, m) { "
            "m.fallback(torch::CppFunction::makeFallthrough()); }",
            "fallthrough my_ops::through CPU  |   "
            "m.impl(\"through\", torch::CppFunction::makeFallthrough());",
            "kernel my_ops::add.Tensor CPU " + here +
                "3addEi |   m.impl(TORCH_SELECTIVE_NAME(\"my_ops::add.Tensor\"),",
            "kernel my_ops::add.Tensor CompositeImplicitAutograd " + here +
                "3addEi |   m.impl(\"add.Tensor\", add);",
            "kernel my_ops::cast CPU " + here + "3addEi |   OP(cast)",
            "kernel my_ops::lambda CPU "
            "_Z36TORCH_LIBRARY_IMPL_init_my_ops_CPU_3RN5torch7LibraryEUli#0 |   "
            "m.impl(\"lambda\", [](int x) { return x; });",
            "kernel my_ops::of_key CUDA " + here +
                "3addEi |   m.impl(\"of_key\", torch::dispatch(c10::DispatchKey::CUDA, &add));",
            "kernel my_ops::q CPU " + here + "4qaddE |   m.impl(\"q\", qadd<true>);",
            "kernel my_ops::with_function CompositeImplicitAutograd " + here +
                "3addEi |   m.def(\"with_function\", &add);",
            "kernel my_ops::with_key CPU " + here +
                "3addEi |   m.def(\"with_key(int a) -> int\", "
                "torch::dispatch(c10::DispatchKey::CPU, add));",
            "kernel my_ops::wrapped CPU " + here +
                "4Wrap4callE |   m.impl(\"wrapped\", &Wrap<c10::DeviceType::CUDA>::call);"});
  // NOLINTEND(bugprone-suspicious-missing-comma)
}

TEST_CASE("extractor: stubs, their kernels by device and capability, and calls of them") {
  constexpr const char* kHeader = R"(#pragma once
namespace at { namespace native {
template <typename FnPtr, typename T> struct DispatchStub;
template <typename R, typename T, typename... A> struct DispatchStub<R (*)(A...), T> {
  using FnPtr = R (*)(A...);
  template <typename... X> R operator()(int device, X&&...);
  void set_cuda_dispatch_ptr(FnPtr);
  static FnPtr DEFAULT;
  static FnPtr AVX512;
  static FnPtr AVX2;
};
namespace {
template <typename S> struct RegisterCUDADispatch {
  RegisterCUDADispatch(S& stub, typename S::FnPtr value) { stub.set_cuda_dispatch_ptr(value); }
};
}
using binary_fn = void (*)(int);
#define DECLARE_DISPATCH(fn, name) \
  struct name##_DECLARE_DISPATCH_type : DispatchStub<fn, name##_DECLARE_DISPATCH_type> {}; \
  extern struct name##_DECLARE_DISPATCH_type name;
#define DEFINE_DISPATCH(name) struct name##_DECLARE_DISPATCH_type name
#define REGISTER_ARCH_DISPATCH(name, arch, fn) \
  template <> name##_DECLARE_DISPATCH_type::FnPtr DispatchStub<name##_DECLARE_DISPATCH_type::FnPtr, struct name##_DECLARE_DISPATCH_type>::arch = fn;
#define REGISTER_DISPATCH(name, fn) REGISTER_ARCH_DISPATCH(name, AVX2, fn)
#define ALSO_REGISTER_AVX512_DISPATCH(name, fn) REGISTER_ARCH_DISPATCH(name, AVX2, fn)
#define REGISTER_CUDA_DISPATCH(name, fn) \
  static RegisterCUDADispatch<struct name##_DECLARE_DISPATCH_type> name##__register(name, fn);
DECLARE_DISPATCH(binary_fn, add_stub)
DECLARE_DISPATCH(binary_fn, mul_stub)
DECLARE_DISPATCH(binary_fn, no_stub)
}}
)";
  const Extracted unit(R"(#include "a.h"
namespace at { namespace native {
DEFINE_DISPATCH(add_stub);
namespace { void kernel(int); }
#define BOTH(name, fn) \
  ALSO_REGISTER_AVX512_DISPATCH(name, fn)
REGISTER_DISPATCH(add_stub, &kernel)
BOTH(mul_stub, [](int) {})
REGISTER_CUDA_DISPATCH(mul_stub, kernel)
REGISTER_ARCH_DISPATCH(no_stub, DEFAULT, nullptr)
REGISTER_ARCH_DISPATCH(no_stub, AVX512, kernel)
void add(int device) { add_stub(device, 1); }
template <typename T> void in_template(T x) { mul_stub(0, x); }
template <typename Stub> void with_stub(Stub& stub) { stub(0, 1); }
void hands_on() { with_stub(add_stub); }
}}
)",
                       kHeader);
  const auto* stub = unit.find("_ZN2at6native8add_stubE");
  REQUIRE(stub != nullptr);
  CHECK(stub->kind == DefinitionKind::stub);
  CHECK(unit.line(stub->symbol) == "DECLARE_DISPATCH(binary_fn, add_stub)");
  const std::string kernel = "_ZN2at6native12_GLOBAL__N_16kernelEi";
  CHECK(unit.registrations() ==
        std::vector<std::string>{"stub _ZN2at6native7no_stubE CPU.AVX512 " + kernel +
                                     " | REGISTER_ARCH_DISPATCH(no_stub, AVX512, kernel)",
                                 "stub _ZN2at6native8add_stubE CPU.AVX2 " + kernel +
                                     " | REGISTER_DISPATCH(add_stub, &kernel)",
                                 "stub _ZN2at6native8add_stubE CPU.DEFAULT " + kernel +
                                     " | REGISTER_DISPATCH(add_stub, &kernel)",
                                 "stub _ZN2at6native8mul_stubE CUDA " + kernel +
                                     " | REGISTER_CUDA_DISPATCH(mul_stub, kernel)"});
  CHECK(unit.calls("_ZN2at6native3addEi", stub->symbol, CallKind::stub) ==
        Lines{"void add(int device) { add_stub(device, 1); }"});
  CHECK(unit.calls("_ZN2at6native3addEi", "_ZN2at6native12DispatchStubclE").size() == 1);
  CHECK(
      unit.calls("_ZN2at6native11in_templateE", "_ZN2at6native8mul_stubE", CallKind::stub).size() ==
      1);
  CHECK(unit.calls("_ZN2at6native8hands_onEv", stub->symbol, CallKind::reference) ==
        Lines{"void hands_on() { with_stub(add_stub); }"});
  CHECK(unit.calls("_ZN2at6native3addEi", stub->symbol, CallKind::reference).empty());
}

TEST_CASE("extractor: device kernels, their launches, and functions whose address is taken") {
  const Extracted unit(R"(#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
struct dim3 { dim3(unsigned); };
int cudaConfigureCall(dim3, dim3, unsigned long = 0, void* = 0);
extern "C" int __cudaPushCallConfiguration(dim3, dim3, unsigned long = 0, void* = 0);
int cudaLaunchKernel(const void*, dim3);
int cudaFuncGetAttributes(const void*);
__device__ int on_device(int x) { return x; }
__global__ void plain(int x) { on_device(x); }
template <typename T> __global__ void of_type(T x) {}
void leaf(int);
void apply(void (*f)(int));
template <typename T> void launch_all(T x) {
  of_type<<<1, 2>>>(x);
}
void user() {
  plain<<<dim3(1), 2>>>(3);
  of_type<float><<<1, 2>>>(3.f);
  cudaLaunchKernel((const void*)plain, 1);
  cudaFuncGetAttributes((const void*)&plain);
  apply(leaf);
  void (*table[])(int) = {&leaf};
  leaf(1);
}
)",
                       "", {"-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib"});
  const std::string user = "_Z4userv";
  const std::string plain = "_Z5plaini";
  REQUIRE(unit.find(plain) != nullptr);
  CHECK(unit.find(plain)->kind == DefinitionKind::device_kernel);
  REQUIRE(unit.find("_ZN7of_typeE") != nullptr);
  CHECK(unit.find("_ZN7of_typeE")->kind == DefinitionKind::device_kernel);
  REQUIRE(unit.find("_Z9on_devicei") != nullptr);
  CHECK(unit.find("_Z9on_devicei")->kind == DefinitionKind::function);
  CHECK(unit.calls(user, plain, CallKind::launch) ==
        Lines{"plain<<<dim3(1), 2>>>(3);", "cudaLaunchKernel((const void*)plain, 1);"});
  CHECK(unit.calls(user, plain, CallKind::reference) ==
        Lines{"cudaFuncGetAttributes((const void*)&plain);"});
  CHECK(unit.calls(user, "_ZN7of_typeE", CallKind::launch) ==
        Lines{"of_type<float><<<1, 2>>>(3.f);"});
  CHECK(unit.calls("_ZN10launch_allE", "_ZN7of_typeE", CallKind::launch) ==
        Lines{"of_type<<<1, 2>>>(x);"});
  CHECK(unit.calls(user, "_Z4leafi", CallKind::reference) ==
        Lines{"apply(leaf);", "void (*table[])(int) = {&leaf};"});
  CHECK(unit.calls(user, "_Z4leafi") == Lines{"leaf(1);"});
}

TEST_CASE("extractor: classes, but not those of functions") {
  const Extracted unit(R"(struct Outer { class Inner {}; struct Declared; };
namespace at { namespace { template <typename T>
struct Of { struct Inner {}; }; } enum class Not { it }; }
void user() { struct Local { void method() {} }; }
)");
  const auto type = [&](const char* symbol) {
    const auto* found = unit.find(symbol);
    return found != nullptr && found->kind == DefinitionKind::type ? unit.line(symbol) : "";
  };
  CHECK(type("_ZTI5Outer") == "struct Outer { class Inner {}; struct Declared; };");
  CHECK(type("_ZTIN5Outer5InnerE") == type("_ZTI5Outer"));
  CHECK(type("_ZTIN2at12_GLOBAL__N_12OfE").starts_with("struct Of {"));
  CHECK(type("_ZTIN2at12_GLOBAL__N_12Of5InnerE").starts_with("struct Of {"));
  const auto types = std::count_if(unit.functions().begin(), unit.functions().end(),
                                   [](auto& one) { return one.kind == DefinitionKind::type; });
  CHECK(types == 4);
}

TEST_CASE("extractor: a unit's findings name the files that it read") {
  const Extracted unit("#include \"a.h\"\n", "#pragma once\n");
  REQUIRE(unit.inclusions().size() == 2);
  CHECK(unit.inclusions()[0].ends_with("/a.cpp"));
  CHECK(unit.inclusions()[1].ends_with("/a.h"));
}

// AddressSanitizer's own memory exceeds any limit. `make test` runs this test without it.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("extractor: a unit that takes more memory than it may is listed with that reason") {
  std::string hungry = "#define M0 1, 1, 1, 1,\n";
  for (int level = 1; level <= 11; ++level) {
    hungry += fmt::format("#define M{0} M{1} M{1} M{1} M{1}\n", level, level - 1);
  }
  hungry += "int all[] = {M11};\nvoid good() {}\n";
  const std::vector<std::string> arguments = {"-x", "c++"};
  const Extracted unit(hungry, "", arguments, std::uint64_t{200} << 20);
  REQUIRE(unit.failed().size() == 1);
  CHECK(unit.failed()[0].reason == "it needs more memory than a worker may use");
  CHECK(unit.functions().empty());
  // A small unit is extracted within the same limit.
  const Extracted small("void good() {}\n", "", arguments, std::uint64_t{200} << 20);
  CHECK(small.failed().empty());
  CHECK(small.line("_Z4goodv") == "void good() {}");
}
#endif

TEST_CASE("extractor: hostile sources end in an answer") {
  const std::string parentheses =
      "int x = " + std::string(100000, '(') + "1" + std::string(100000, ')');
  std::string chain = "struct S { S& f(); } s; void user() { s";
  for (int call = 0; call < 3000; ++call) {
    chain += ".f()";
  }
  chain += "; }";
  std::string binary;
  std::mt19937 random(1);
  while (binary.size() < 100000) {
    binary += static_cast<char>(random());
  }
  const std::string good = ";\nvoid good() {}\n";
  struct Hostile {
    std::string source;
    bool good_is_found;  // False if the source lacks good() or the compiler gives up before it.
  };
  for (const auto& [source, good_is_found] :
       {Hostile{parentheses + good, false}, Hostile{chain + good, true}, Hostile{binary, false},
        Hostile{good + "#include \"a.cpp\"\n", true},
        Hostile{"template <int N> struct F { static constexpr int v = F<N + 1>::v; };\n"
                "int x = F<0>::v" +
                    good,
                true},
        Hostile{"", false}, Hostile{"#error no\n" + good, true}}) {
    INFO(source.substr(0, 60));
    const Extracted unit(source);
    CHECK(unit.failed().empty());
    CHECK(unit.line("_Z4goodv").empty() != good_is_found);
  }
}

TEST_CASE("extractor: small results have types, enumerations their enumerators") {
  const Extracted unit(R"(
namespace at {
enum class Backend : unsigned char { Math = 1, Flash };
enum { Plain = -3 };
bool is_on() { return true; }
const Backend chosen() { return Backend::Flash; }
decltype(Plain) plain() { return Plain; }
unsigned short number() { return 1; }
const char* text() { return nullptr; }
int& reference(int& one) { return one; }
double real() { return 1; }
void nothing() {}
struct Large { long parts[4]; };
Large large() { return {}; }
template <typename T> struct Params {
  bool use() const { return true; }
  T dependent() const { return {}; }
  static Backend of_template() { return Backend::Math; }
};
template <typename T> Backend pick() { return Backend::Math; }
template <typename T> int overloaded(T) { return 1; }
})");
  const auto result = [&](const std::string& symbol) {
    const auto* function = unit.find(symbol);
    return function == nullptr ? "not found" : function->result;
  };
  const std::string backend = "n1 at::Backend|Math=1|Flash=2";
  CHECK(result("_ZN2at5is_onEv") == "b1 bool");
  CHECK(result("_ZN2at6chosenEv") == backend);
  CHECK(result("_ZTIN2at7BackendE") == backend);
  CHECK(result("_ZN2at6numberEv") == "u2 unsigned short");
  CHECK(result("_ZN2at4textEv") == "p8 pointer");
  CHECK(result("_ZN2at9referenceERi").empty());
  CHECK(result("_ZN2at4realEv").empty());
  CHECK(result("_ZN2at7nothingEv").empty());
  CHECK(result("_ZN2at5largeEv").empty());
  CHECK(result("_ZN2at6Params3useE") == "b1 bool");
  CHECK(result("_ZN2at6Params9dependentE").empty());
  CHECK(result("_ZN2at6Params11of_templateE") == backend);
  CHECK(result("_ZN2at4pickE") == backend);
  CHECK(result("_ZN2at10overloadedE") == "s4 int");
}
