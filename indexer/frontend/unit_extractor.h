#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <clang-c/Index.h>

#include "indexer/store/index_writer.h"

namespace optrace {

/// Maps an absolute path to the file's name in the index: relative to the source tree, or, for a
/// generated file, to a build tree. Returns nothing for any other file.
using PathMap = std::function<std::optional<std::string>(std::string_view absolute_path)>;

/// Walks the syntax trees of translation units and passes its findings to callbacks:
///
/// Function definitions with their call sites. The key of a function is its canonical symbol. For
/// templates and members of class templates it is the template_key, also in calls of their
/// instances. A lambda is a function of its own with a lambda_key; its calls are recorded for the
/// enclosing function as well. The key of a class is the symbol of its type information,
/// `_ZTIN2at8TensorBaseE`; for class templates it consists of names only.
///
/// Registrations: the calls on `torch::Library` (torch/library.h) in the blocks of TORCH_LIBRARY,
/// TORCH_LIBRARY_FRAGMENT and TORCH_LIBRARY_IMPL, and the kernels of DispatchStubs
/// (aten/src/ATen/native/DispatchStub.h).
class UnitExtractor {
 public:
  using FunctionSink = std::function<void(IndexContents::Function)>;
  using RegistrationSink = std::function<void(IndexContents::Registration)>;

  UnitExtractor(PathMap paths, FunctionSink function_sink, RegistrationSink registration_sink)
      : paths_(std::move(paths)),
        function_sink_(std::move(function_sink)),
        registration_sink_(std::move(registration_sink)) {}

  void extract(CXTranslationUnit unit);

 private:
  struct File {
    bool is_indexed = false;
    std::string name;  // Its name in the index.
    bool is_header = false;
  };
  struct Place {
    const File* file = nullptr;
    std::uint32_t line = 0;
  };

  // The block of a TORCH_LIBRARY macro.
  struct Library {
    std::string name;  // The namespace.
    std::string key;   // Empty in TORCH_LIBRARY and TORCH_LIBRARY_FRAGMENT.
  };

  // A function whose body is being walked.
  struct Open {
    IndexContents::Function function;
    std::string own_symbol;  // The symbol of an explicit specialization; else empty.
    bool is_lambda = false;
    bool is_template = false;
    std::unordered_map<std::string, int> lambdas;  // Number of lambdas met so far, by signature.
  };

  // A call whose parts are being walked.
  struct OpenCall {
    CXCursor callee;      // The expression before the parenthesis.
    CXCursor referenced;  // The declaration that is called.
  };

  // The function and the dispatch key named by the arguments of a registration.
  struct Arguments {
    UnitExtractor* extractor;
    std::string function;
    std::string key;  // The dispatch key, if one is named.
    bool is_fallthrough = false;
  };

  struct Callee {
    std::string key;  // Empty if unknown or left out.
    bool is_device_kernel = false;
  };

  static CXChildVisitResult visit_declaration(CXCursor cursor, CXCursor parent, CXClientData self);
  static CXChildVisitResult visit_body(CXCursor cursor, CXCursor parent, CXClientData self);
  void take_type(CXCursor cursor, DefinitionKind kind);
  void take_variable(CXCursor cursor);
  void take_stub_kernel(CXCursor variable, const Place& place, const std::string& stub,
                        const std::vector<std::string>& keys);
  std::vector<std::string> capabilities_of(CXCursor variable, const std::string& capability) const;
  void take_function(CXCursor cursor);
  void take_lambda(CXCursor cursor, CXCursor parent);
  // Walks the body of a function and passes the function to the sink.
  void walk(CXCursor cursor, const Place& place, Open open);
  void take_call(CXCursor call, const OpenCall& open);
  void take_resolved_call(CXCursor call, const OpenCall& open, CXSourceLocation location);
  void take_unresolved_call(CXCursor called, CXSourceLocation location);
  void take_reference(CXCursor expression);
  void take_kernel_reference(CXCursor expression, CXCursor overloads);
  void take_library_call(const Library& library, CXCursor call, const std::string& member,
                         CXSourceLocation location);
  static CXChildVisitResult visit_argument(CXCursor cursor, CXCursor parent, CXClientData found);
  static std::optional<Library> library_of(std::string_view function);
  void add_call(const std::string& callee, CXSourceLocation location,
                CallKind kind = CallKind::call);
  void add_call(const Callee& callee, CXSourceLocation location);
  Place place_of(CXSourceLocation location);
  const Callee& callee_of(CXCursor referenced);
  // Returns the key of a lambda, given its class or a variable that holds it. Empty for anything
  // else.
  std::string lambda_key_of(CXCursor declaration) const;
  // Returns the callee of a member call such as `params.use_cudnn`, where params is a
  // ConvParams<T>. Returns null if the class or the member can't be determined.
  const Callee* dependent_member(CXCursor member);

  PathMap paths_;
  FunctionSink function_sink_;
  RegistrationSink registration_sink_;
  CXTranslationUnit unit_ = nullptr;
  std::string main_file_;
  // Keyed by CXFile, which is valid for one unit only.
  std::unordered_map<void*, File> files_;
  std::unordered_map<const void*, Callee> callees_;           // Keyed by declaration.
  std::unordered_map<const void*, std::string> lambda_keys_;  // Keyed by class or variable.
  std::unordered_set<std::uint64_t> seen_;  // Hashes of functions, calls included.
  std::vector<Open> open_;                  // Outermost first.
  std::vector<OpenCall> open_calls_;        // Outermost first.
  std::optional<Library> library_;          // The library whose block is being walked.
};

}  // namespace optrace
