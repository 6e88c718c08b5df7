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

#include "indexer/index_writer.h"

namespace optrace {

/// Names files as the index does: relative to the source tree, generated ones as in a build tree.
/// Gives nothing for a file that is part of neither.
using PathMap = std::function<std::optional<std::string>(std::string_view absolute_path)>;

/// Walks the syntax trees of translation units and gives each function definition to a callback. A
/// header's function is given again only where a unit shows it with other calls. Functions are
/// keyed by canonical symbol; templates and members of class templates by template_key, and so are
/// calls of their instances. A lambda is a function of its own, by lambda_key, and its calls are
/// those of the function around it as well.
class UnitExtractor {
 public:
  using Sink = std::function<void(IndexContents::Function)>;

  UnitExtractor(PathMap paths, Sink sink) : paths_(std::move(paths)), sink_(std::move(sink)) {}

  void extract(CXTranslationUnit unit);

 private:
  struct File {
    bool is_indexed = false;
    std::string name;  // As the index has it.
    bool is_header = false;
  };
  struct Place {
    const File* file = nullptr;
    std::uint32_t line = 0;
  };

  // A function that the walk is in.
  struct Open {
    IndexContents::Function function;
    std::string own_symbol;  // Of an explicit specialization; else empty.
    bool is_lambda = false;
    bool is_template = false;
    std::unordered_map<std::string, int> lambdas;  // How many of each signature were met.
  };

  static CXChildVisitResult visit_declaration(CXCursor cursor, CXCursor parent, CXClientData self);
  static CXChildVisitResult visit_body(CXCursor cursor, CXCursor parent, CXClientData self);
  void take_function(CXCursor cursor);
  void take_lambda(CXCursor cursor, CXCursor parent);
  // Walks the body of a function and gives it to the sink.
  void walk(CXCursor cursor, const Place& place, Open open);
  void take_call(CXCursor call);
  void add_call(const std::string& callee, CXSourceLocation location);
  Place place_of(CXSourceLocation location);
  const std::string& callee_key(CXCursor referenced);
  // Of a lambda's class, or of a variable that holds one; empty for anything else.
  std::string lambda_key_of(CXCursor declaration) const;
  // `params.use_cudnn` where params is a ConvParams<T>; empty where nothing tells the class.
  std::string dependent_member_key(CXCursor member);

  PathMap paths_;
  Sink sink_;
  CXTranslationUnit unit_ = nullptr;
  std::string main_file_;
  // CXFile is good for one unit only; its name is not.
  std::unordered_map<void*, File> files_;
  std::unordered_map<const void*, std::string> callee_keys_;  // By declaration.
  std::unordered_map<const void*, std::string> lambda_keys_;  // By class or variable.
  std::unordered_set<std::uint64_t> seen_in_headers_;  // Hashes of functions, calls included.
  std::vector<Open> open_;                             // Outermost first.
};

}  // namespace optrace
