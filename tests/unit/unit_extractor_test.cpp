// The extractor as it runs: in the index worker, over small sources.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "indexer/driver.h"
#include "indexer/symbol_key.h"
#include "platform/private_folder.h"

using namespace optrace;

namespace {

/// A source file `a.cpp`, and what the worker finds in it and in its headers.
class Extracted {
 public:
  explicit Extracted(const std::string& source, const std::string& header = "",
                     const std::vector<std::string>& arguments = {"-x", "c++", "-std=c++17"})
      : source_(source), header_(header) {
    std::ofstream(folder_.path() / "a.cpp") << source;
    std::ofstream(folder_.path() / "a.h") << header;
    Driver driver({.worker = OPTRACE_INDEX_WORKER}, {{{folder_.path().string(), ""}}, {}});
    failed_ = driver.run(
        {{(folder_.path() / "a.cpp").string(), "a.cpp", arguments, "", ""}},
        [&](IndexContents::Function function) { functions_.push_back(std::move(function)); },
        [](std::size_t, std::size_t) {});
  }

  const std::vector<FailedUnit>& failed() const { return failed_; }
  const std::vector<IndexContents::Function>& functions() const { return functions_; }

  /// The text of the line at which the function begins; empty if it was not found.
  std::string line(const std::string& symbol) const {
    const auto* function = find(symbol);
    return function == nullptr ? "" : text(function->file, function->line);
  }

  /// The texts of the lines on which `caller` calls `callee`, each without leading blanks.
  std::set<std::string> calls(const std::string& caller, const std::string& callee) const {
    std::set<std::string> lines;
    for (const auto& function : functions_) {
      for (const auto& call : function.calls) {
        if (function.symbol == caller && call.callee == callee) {
          const std::string line = text(function.file, call.line);
          lines.insert(line.substr(std::min(line.find_first_not_of(' '), line.size())));
        }
      }
    }
    return lines;
  }

 private:
  const IndexContents::Function* find(const std::string& symbol) const {
    const auto found = std::find_if(functions_.begin(), functions_.end(),
                                    [&](const auto& one) { return one.symbol == symbol; });
    return found == functions_.end() ? nullptr : &*found;
  }

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
  std::vector<IndexContents::Function> functions_;
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
  CHECK(unit.line("_ZN2at6native4leafEi").empty());  // Only declared.
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
  // A chain over several lines: the line of the name that is called.
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
  // Which overload is meant depends on the instance.
  CHECK(unit.calls(select, "_Z6resizel") == Lines{"resize(value);"});
  CHECK(unit.calls(select, "_Z6resizei").count("resize(value);") == 1);
  CHECK(unit.calls("_Z4user6ParamsIiE", select) ==
        Lines{"void user(Params<int> params) { select(1, params, &params); }"});
  // An explicit specialization has a symbol, and a line, of its own.
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
    bool good_is_found;  // The compiler gives up at once where it does not count as an error.
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
