#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <ATen/core/ivalue.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/util/complex.h>

#include "target/op_recorder/callees.h"
#include "target/op_recorder/tensors/tensor_facts.h"
#include "target/recorder/json_fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_ops {

/// Number of elements of a list that a record contains.
constexpr std::size_t kMaxElements = 64;
/// Number of characters of a string that a record contains.
constexpr std::size_t kMaxCharacters = 200;

inline const char* layout_name(c10::Layout layout) {
  switch (layout) {
    case c10::Layout::Strided:
      return "strided";
    case c10::Layout::Sparse:
      return "sparse_coo";
    case c10::Layout::SparseCsr:
      return "sparse_csr";
    case c10::Layout::SparseCsc:
      return "sparse_csc";
    case c10::Layout::SparseBsr:
      return "sparse_bsr";
    case c10::Layout::SparseBsc:
      return "sparse_bsc";
    case c10::Layout::Mkldnn:
      return "_mkldnn";
    case c10::Layout::Jagged:
      return "jagged";
    default:
      return "unknown";
  }
}

inline const char* memory_format_name(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return "contiguous_format";
    case c10::MemoryFormat::Preserve:
      return "preserve_format";
    case c10::MemoryFormat::ChannelsLast:
      return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    default:
      return "unknown";
  }
}

// The functions below write to a JsonText or a JsonFingerprint.

inline void write_typed(JsonText& json, const std::string& type) {
  json.open('{');
  json.key("type");
  json.string(type);
  json.close('}');
}

inline void write_typed(JsonFingerprint& fingerprint, const std::string& type) {
  fingerprint.string(type);
}

// The type is a literal.
template <typename Value, typename Name>
void write_named(JsonText& json, const char* type, const Value& value, Name name_of) {
  json.open('{');
  json.key("type");
  json.string(type);
  json.key("value");
  json.name(value, name_of);
  json.close('}');
}

template <typename Value, typename Name>
void write_named(JsonFingerprint& fingerprint, const char* type, const Value& value, Name name_of) {
  fingerprint.key(type);
  fingerprint.name(value, name_of);
}

inline bool is_scalar(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isString() ||
         value.isComplexDouble();
}

inline std::string text_of(const c10::complex<double>& number) {
  return std::to_string(number.real()) + (number.imag() < 0 ? "" : "+") +
         std::to_string(number.imag()) + "j";
}

template <typename Out>
void write_integer(Out& out, std::int64_t value, ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::dtype:
      write_named(out, "dtype", static_cast<c10::ScalarType>(value), dtype_name);
      break;
    case ArgumentKind::layout:
      write_named(out, "layout", static_cast<c10::Layout>(value), layout_name);
      break;
    case ArgumentKind::memory_format:
      write_named(out, "memory_format", static_cast<c10::MemoryFormat>(value), memory_format_name);
      break;
    case ArgumentKind::plain:
      out.number(value);
      break;
  }
}

template <typename Out>
void write_scalar(Out& out, const c10::IValue& value, ArgumentKind kind, Precision precision) {
  const bool valued = precision < Precision::no_values;
  if (value.isBool()) {
    out.boolean(value.toBool());
  } else if (value.isInt() && (valued || kind != ArgumentKind::plain)) {
    write_integer(out, value.toInt(), kind);
  } else if (!valued) {
    write_typed(out, value.isInt()      ? "int"
                     : value.isDouble() ? "float"
                     : value.isString() ? "str"
                                        : "complex");
  } else if (value.isDouble()) {
    out.number(value.toDouble());
  } else if (value.isString()) {
    const std::string& text = value.toStringRef();
    out.string(text.size() <= kMaxCharacters ? text : text.substr(0, kMaxCharacters) + "...");
  } else {
    write_named(out, "complex", value.toComplexDouble(), text_of);
  }
}

/// Writes the elements of a list with `write`, and how many it leaves out. A list whose elements
/// differ in every call is not `counted`: the first one stands for all.
template <typename Out, typename Write>
void write_list(Out& out, c10::ArrayRef<c10::IValue> elements, bool counted, Write write) {
  const std::size_t shown = std::min(elements.size(), counted ? kMaxElements : 1);
  out.open('[');
  for (std::size_t i = 0; i < shown; ++i) write(elements[i]);
  if (!counted)
    write_typed(out, "more");
  else if (elements.size() > shown)
    write_named(out, "more", elements.size() - shown,
                [](std::size_t count) { return std::to_string(count); });
  out.close(']');
}

}  // namespace optrace_ops
