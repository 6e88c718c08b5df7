#include "pytorch/functions/probed_functions.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "platform/text/ascii_text.h"
#include "platform/text/glob.h"
#include "pytorch/functions/fortran_routines.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/functions/function_rows.h"
#include "pytorch/functions/vendor_libraries.h"

namespace optrace {
namespace {

/// The plain identifiers at the start of a mangled name. For `_ZZN2at6nativeL3addEvENKUlvE_`, these
/// are at, native, add, starting at "2at".
struct QualifiedName {
  std::string_view from_first;  ///< The mangled text from the first identifier on.
  std::size_t identifiers = 0;  ///< Number of consecutive identifiers.
  std::string_view first;       ///< First identifier, without its length.
  bool nested = false;
};

std::optional<QualifiedName> parse(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::nullopt;
  std::size_t at = 2;
  QualifiedName name;
  // Z: a local entity; N: nested; the others qualify a member function.
  while (at < symbol.size() && std::string_view("ZNKVrROL").find(symbol[at]) != symbol.npos) {
    name.nested |= symbol[at] == 'N';
    ++at;
  }
  name.from_first = symbol.substr(at);
  while (at < symbol.size()) {
    if (symbol[at] == 'L') ++at;
    std::size_t length = 0;
    const std::size_t digits = at;
    while (at < symbol.size() && is_digit(symbol[at]) && length < symbol.size())
      length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
    if (at == digits || length == 0 || length > symbol.size() - at) break;
    if (name.identifiers++ == 0) name.first = symbol.substr(at, length);
    at += length;
    if (!name.nested) break;
  }
  if (name.identifiers == 0) return std::nullopt;
  return name;
}

/// Returns the scope as mangled by the Itanium ABI: `2at6native` for `at::native`.
std::string mangled_scope(std::string_view scope) {
  std::string mangled;
  while (!scope.empty()) {
    const std::size_t end = std::min(scope.find("::"), scope.size());
    const std::string_view part = scope.substr(0, end);
    mangled += part == "(anonymous namespace)" ? "12_GLOBAL__N_1" : fmt::format("{}{}", end, part);
    scope.remove_prefix(std::min(end + 2, scope.size()));
  }
  return mangled;
}

/// The C++ functions that a row of a table selects, by their mangled names.
class CppProbes {
 public:
  CppProbes(std::string_view pattern, std::string_view part) : part_(part) {
    const std::size_t wildcard = pattern.find_first_of("*%<");
    const std::size_t end = pattern.rfind("::", wildcard);
    if (end == std::string_view::npos) {
      start_ = pattern.substr(0, wildcard);
      where_ = Where::global;
      return;
    }
    // A template's name belongs to the scope of its functions.
    const bool of_template = wildcard != std::string_view::npos && pattern[wildcard] == '<';
    const std::string_view scope = pattern.substr(0, of_template ? wildcard : end);
    start_ = mangled_scope(scope);
    identifiers_ = 1 + static_cast<std::size_t>(std::ranges::count(scope, ':')) / 2;
    where_ = pattern.substr(end) == "::%" ? Where::directly_in_scope : Where::in_scope;
  }

  /// Returns true if functions whose first identifier starts like this may be selected.
  bool may_match(char first) const { return where_ == Where::global || start_.front() == first; }

  bool match(std::string_view symbol, const QualifiedName& name) const {
    switch (where_) {
      case Where::global:
        if (name.nested || !name.first.starts_with(start_)) return false;
        break;
      case Where::directly_in_scope:
        if (name.identifiers != identifiers_ + 1) return false;
        [[fallthrough]];
      case Where::in_scope:
        if (!name.nested || !name.from_first.starts_with(start_)) return false;
        break;
    }
    return symbol.find(part_) != std::string_view::npos;
  }

 private:
  enum class Where : std::uint8_t { global, in_scope, directly_in_scope };

  std::string_view part_;
  Where where_ = Where::in_scope;
  std::string start_;            ///< Of the name: the mangled scope, or the start of a global name.
  std::size_t identifiers_ = 0;  ///< Of the scope.
};

/// The rows of the tables by the first byte of what they select: identifiers or C names. A library
/// has several hundred thousand symbols, and that byte excludes most rows for most of them.
class ProbeTable {
 public:
  ProbeTable() {
    for (const FunctionRow& row : function_rows()) add(row.name, row.probes);
    for (const VendorLibrary& library : vendor_libraries())
      for (const LibraryFunctions& functions : library.functions)
        add(functions.names, functions.probes);
  }

  bool selects(std::string_view symbol) const {
    if (const auto name = parse(symbol)) {
      const auto matches = [&](const CppProbes& probes) { return probes.match(symbol, *name); };
      return std::ranges::any_of(cpp_[index_of(name->from_first.front())], matches);
    }
    return std::ranges::any_of(c_[index_of(symbol.front())], [&](std::string_view pattern) {
      return matches_name_glob(symbol, pattern);
    });
  }

 private:
  static constexpr std::size_t kBytes = 256;

  static std::size_t index_of(char start) { return static_cast<unsigned char>(start); }

  void add(std::string_view pattern, const ProbeRule& rule) {
    if (rule.language == ProbeRule::Language::c) c_[index_of(pattern.front())].push_back(pattern);
    if (rule.language != ProbeRule::Language::cpp) return;
    const CppProbes probes(pattern, rule.part);
    for (std::size_t byte = 0; byte < kBytes; ++byte)
      if (probes.may_match(static_cast<char>(byte))) cpp_[byte].push_back(probes);
  }

  std::array<std::vector<CppProbes>, kBytes> cpp_;
  std::array<std::vector<std::string_view>, kBytes> c_;
};

/// Returns true for the functions of BLAS and LAPACK that ATen calls: `sgemm_`.
bool is_probed_fortran(std::string_view symbol) {
  if (symbol.size() < 3 || !symbol.ends_with('_') ||
      std::string_view("sdcz").find(symbol.front()) == std::string_view::npos)
    return false;
  const FortranRoutine* const routine = fortran_routine(symbol.substr(1, symbol.size() - 2));
  return routine != nullptr && routine->probed;
}

bool is_destructor(std::string_view symbol) {
  return symbol.ends_with("D0Ev") || symbol.ends_with("D1Ev") || symbol.ends_with("D2Ev");
}

/// Parts of the names of functions that the tables select, that lead nowhere, and that others call
/// so often that their probes would take most of the time. One that leads somewhere after all, such
/// as a hook, is found on the stack.
constexpr auto kExcludedLeaves = std::to_array<std::string_view>({
    // Conversions of Python objects, and the Python object of a tensor.
    "THPUtils_", "THPVariable_Wrap", "THPVariable_NewWithVar", "THPVariable_subclass_",
    "THPDevice_New",
    // Settings of a thread, which each autograd node saves and restores, and of the process.
    "8autocast18set_autocast_dtype", "8autocast18get_autocast_dtype", "FuncTorchTLSE",
    "13globalContextEv", "14get_thread_numEv", "15get_num_threadsEv", "18in_parallel_regionEv",
    "16getStepCallbacks", "27getStepCallbacksUnlessEmpty", "14RecordFunctionC",
    "24get_record_function_tls_", "24set_record_function_tls_", "14getAcceleratorEb",
    // What is done with the inputs of an op, one by one.
    "12VariableType6unpack", "21checked_cast_variable", "15isFwGradDefined",
    "24update_result_type_state", "16original_options", "20has_internal_overlap",
    "18get_overlap_status", "26assert_no_internal_overlap", "25assert_no_partial_overlap",
    "17assert_no_overlap", "13check_inplaceE", "21compute_requires_gradI", "18collect_next_edgesI",
    "15gatherFunctionsE", "19flatten_tensor_args", "32throw_error_for_complex_autograd",
    "21check_input_variables", "20infer_size_dimvector", "29inferExpandGeometry_dimvector",
    "18dim_list_to_bitset", "11result_typeERKNS0_15ResultTypeStateE", "13to_will_alias",
    "7check_tE", "20any_variable_defined", "22cat_should_skip_tensor",
    "25infer_dtype_from_optional",
    "6TensoraSE",  // at::Tensor::operator=
    // The dimensions of the iteration over them.
    "10DimCounterC", "14find_split_dim", "16resize_reduction", "20review_reduce_result",
    // The outputs of a structured kernel, and the metadata of others.
    "resize_output_check", "10setStridedI", "16resize_bytes_cpu", "16maybe_get_output",
    "18set_output_stridedE", "22set_output_raw_stridedE",
    // What autograd records about a tensor, and the parts of its nodes.
    "12AutogradMetaC", "22DifferentiableViewMetaC", "8ViewInfoC", "13InputMetadataC",
    "13SavedVariable", "7as_viewE", "33make_variable_differentiable_view", "11set_historyE",
    "25materialize_autograd_meta", "17set_gradient_edge", "8autograd4NodeC", "10deleteNodeE",
    "17TraceableFunctionC", "17release_variablesE", "4Node6streamEv",
    // The engine's bookkeeping for each node.
    "14GraphTaskGuardC", "9NodeGuardC", "32get_current_graph_task_exec_info",
    "26task_should_compute_output", "21call_tensor_pre_hooks", "11ready_queueE",
    "8autograd10set_deviceE", "17get_python_engine", "18get_default_engine", "17get_default_hooks",
    "32get_default_saved_variable_hooks", "16validate_outputs", "16ThreadLocalStateC",
    // What a derivative formula does with a gradient, where it need not compute anything.
    "10copy_rangeE", "14maybe_multiply", "13handle_r_to_c", "15strides_or_error",
    // The choice of a kernel's CPU capability, which is part of the chosen kernel's name.
    "16DispatchStubImpl", "18get_cpu_capability",
    // oneDNN's tensors and engine, and what the processor supports.
    "5ideep6tensorC", "5ideep6tensor4initE", "6tensor8get_descE", "6engine10cpu_engine",
    "21has_bf16_type_support",
    "RowwiseMoments",     // Each row of a normalization.
    "GOMP_parallel_end",  // Called by GOMP_parallel.
});

/// A list of texts of at least two bytes that are searched for at the same time, in one pass over a
/// symbol.
class Parts {
 public:
  explicit Parts(std::span<const std::string_view> parts) : parts_(parts.begin(), parts.end()) {
    std::ranges::sort(parts_);
    for (const std::string_view part : parts_) starts_.set(start_of(part));
  }

  bool any_in(std::string_view symbol) const {
    for (; symbol.size() >= kStart; symbol.remove_prefix(1)) {
      if (!starts_[start_of(symbol)]) continue;
      const auto same_start = std::ranges::equal_range(
          parts_, symbol.substr(0, kStart), {}, [](auto part) { return part.substr(0, kStart); });
      if (std::ranges::any_of(same_start, [&](auto part) { return symbol.starts_with(part); }))
        return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kStart = 2;  ///< Bytes.

  static std::size_t start_of(std::string_view text) {
    return std::size_t{static_cast<unsigned char>(text[0])} << 8U |
           static_cast<unsigned char>(text[1]);
  }

  std::vector<std::string_view> parts_;  ///< Sorted.
  std::bitset<1U << 16U> starts_;        ///< Of all parts.
};

bool is_excluded_leaf(std::string_view symbol) {
  static const Parts parts(kExcludedLeaves);
  return parts.any_in(symbol);
}

}  // namespace

bool is_probed(std::string_view symbol) {
  static const ProbeTable table;
  if (symbol.empty() || is_destructor(symbol)) return false;
  return (table.selects(symbol) || is_probed_fortran(symbol) || is_of_openmp_region(symbol)) &&
         !is_excluded_leaf(symbol);
}

}  // namespace optrace
