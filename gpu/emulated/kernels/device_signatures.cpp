#include "gpu/emulated/kernels/device_signatures.h"

namespace optrace::emulated {
namespace {

// Names in the demangler's format. A name precedes those that are its prefixes.
constexpr ElementType kTypes[] = {
    {"c10::complex<double>", 16, false},
    {"c10::complex<float>", 8, false},
    {"c10::complex<c10::Half>", 4, false},
    {"c10::Half", 2, true},
    {"c10::BFloat16", 2, true},
    {"c10::Float8", 1, false},
    {"unsigned char", 1, false},
    {"unsigned short", 2, false},
    {"unsigned int", 4, false},
    {"unsigned long", 8, false},
    {"signed char", 1, false},
    {"double", 8, true},
    {"float", 4, true},
    {"short", 2, false},
    {"long", 8, false},
    {"bool", 1, false},
    {"char", 1, false},
    {"int", 4, false},
};

bool is_word(char letter) {
  return letter == '_' || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

/// Returns the text before the next comma outside all brackets, or the rest, and removes it from
/// `text`.
Text next_part(Text& text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '<' || letter == '(' || letter == '{' || letter == '[') ++depth;
    if (letter == '>' || letter == ')' || letter == '}' || letter == ']') --depth;
    if (letter != ',' || depth != 0) continue;
    const Text part = text.substr(0, at);
    text.remove_prefix(at + 1);
    return part;
  }
  const Text part = text;
  text = {};
  return part;
}

}  // namespace

bool has(Text text, Text part) {
  return text.find(part) != Text::npos;
}

bool begins(Text text, Text part) {
  return text.substr(0, part.size()) == part;
}

const ElementType* first_type(Text text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == ':')) continue;
    for (const ElementType& type : kTypes) {
      if (text.substr(at, type.name.size()) != type.name) continue;
      const Text rest = text.substr(at + type.name.size());
      const bool whole = rest.empty() || !is_word(rest.front()) || type.name == "c10::Float8";
      if (whole) return &type;
    }
  }
  return nullptr;
}

std::vector<Text> parts_of(Text list) {
  std::vector<Text> parts;
  while (!list.empty()) {
    Text part = next_part(list);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
  }
  return parts;
}

std::vector<Text> parameters_of(Text signature) {
  if (signature.empty() || signature.back() != ')') return {};
  int depth = 0;
  for (std::size_t at = signature.size(); at-- > 0;) {
    if (signature[at] == ')') ++depth;
    if (signature[at] == '(' && --depth == 0)
      return parts_of(signature.substr(at + 1, signature.size() - at - 2));
  }
  return {};
}

std::vector<Text> template_arguments(Text type) {
  const std::size_t first = type.find('<');
  if (first == Text::npos || type.back() != '>') return {};
  return parts_of(type.substr(first + 1, type.size() - first - 2));
}

Text after(Text text, Text mark) {
  const std::size_t at = text.find(mark);
  return at == Text::npos ? Text() : text.substr(at + mark.size());
}

}  // namespace optrace::emulated
