#include "lookup/locate/locate.h"

#include <string>
#include <utility>

#include "lookup/locate/cpp_lookup.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/locate_query.h"
#include "lookup/locate/name_suggestions.h"
#include "lookup/locate/op_lookup.h"
#include "lookup/locate/python_lookup.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Adds the symbols that a library of the wheel defines or imports, from any source.
void find_in_wheel(const WheelSymbols& wheel, const NameQuery& query, AnswerList& answers) {
  for (const WheelSymbol& one : wheel.find(query, answers.options().limit)) {
    answers.add([&] {
      Located answer;
      answer.kind = LocatedKind::foreign;
      answer.name = shown_name(one.symbol);
      answer.parameters = parameters_of(one.symbol);
      answer.symbol = one.symbol;
      answer.library = one.library.empty() ? one.imported_by : one.library;
      return answer;
    });
  }
}

}  // namespace

// The look-ups, each with what it has read of the index.
struct Locator::State {
  State(const Index& pytorch, std::vector<const Index*> extensions, const WheelSymbols* symbols)
      : entries(pytorch, std::move(extensions)), wheel(symbols) {}
  ~State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Searches the kinds of names that the query's form allows, the likeliest first.
  void find(const NameQuery& query, AnswerList& answers) {
    switch (query.form) {
      case NameForm::mangled:
        cpp.find_mangled(query, answers);
        break;
      case NameForm::cpp:
        ops.find(query, answers);
        if (answers.empty()) cpp.find(query, answers);
        if (answers.empty()) ops.find_registered_families(query, answers);
        if (answers.empty()) cpp.find_class_of(query, answers);
        if (answers.empty()) cpp.find_pure(query, answers);
        break;
      case NameForm::dotted:
        python.find(query, true, answers);
        if (answers.empty()) ops.find(query, answers);
        if (answers.empty()) ops.find_registered_families(query, answers);
        break;
      case NameForm::plain: {
        ops.find(query, answers);
        const bool is_op = !answers.empty();
        python.find(query, !is_op, answers);
        cpp.find(query, answers);
        if (answers.empty()) cpp.find_foreign(query.text, answers);
        break;
      }
    }
    if (answers.empty() && wheel != nullptr) find_in_wheel(*wheel, query, answers);
  }

  EntryLocator entries;
  CppLookup cpp{entries};
  OpLookup ops{entries, cpp};
  PythonLookup python{entries, ops};
  NameSuggestions suggestions{entries, cpp, ops, python};
  const WheelSymbols* wheel;
};

Locator::Locator(const Index& index, std::vector<const Index*> projects, const WheelSymbols* wheel)
    : state_(std::make_unique<State>(index, std::move(projects), wheel)) {}

Locator::~Locator() = default;

LocateResult Locator::locate(std::string_view name, const LocateOptions& options) {
  const NameQuery query = parse_name(name);
  AnswerList answers(options);
  state_->find(query, answers);
  LocateResult result;
  result.query = query.text;
  result.answers = answers.take();
  result.total = answers.total();
  if (result.total == 0) result.suggestions = state_->suggestions.suggest(query);
  return result;
}

std::vector<PythonName> Locator::python_names(std::string_view name) const {
  for (const std::string& spelling : python_spellings(parse_name(name)))
    if (std::vector<PythonName> found = state_->python.names_of(spelling); !found.empty())
      return found;
  return {};
}

bool Locator::knows_python_name(std::string_view name) const {
  return !python_names(name).empty();
}

}  // namespace optrace
