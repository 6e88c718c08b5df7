#pragma once

// Contents of cuBLASLt's layouts and descriptors, and the record of a matrix product.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include <cublasLt.h>

namespace optrace::emulated {

/// A layout, descriptor or preference: the bytes of each attribute.
struct Attributes {
  std::map<int, std::vector<char>> bytes;
};

template <typename Value>
void set(Attributes& attributes, int name, Value value) {
  std::vector<char>& bytes = attributes.bytes[name];
  bytes.resize(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
}

template <typename Value>
Value get(const Attributes& attributes, int name, Value otherwise) {
  const auto found = attributes.bytes.find(name);
  if (found == attributes.bytes.end()) return otherwise;
  Value value = {};
  std::memcpy(static_cast<void*>(&value), found->second.data(),
              std::min(sizeof value, found->second.size()));
  return value;
}

/// Return the initial attributes of a layout and a descriptor.
Attributes layout_attributes(cudaDataType type, std::uint64_t rows, std::uint64_t columns,
                             std::int64_t ld);
Attributes descriptor_attributes(cublasComputeType_t compute, cudaDataType_t scale);

struct Product {
  const Attributes& descriptor;
  const Attributes& a;
  const Attributes& b;
  const Attributes& c;
  const Attributes& d;
};

/// `attribute` is CUBLASLT_MATMUL_DESC_TRANSA or _TRANSB.
cublasOperation_t transposition(const Product& product, int attribute);

cudaDataType type_of(const Attributes& layout);
std::int64_t rows(const Attributes& layout);
std::int64_t columns(const Attributes& layout);
std::int64_t leading_bytes(const Attributes& layout);

struct Sizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

/// Returns the sizes of the product, after the transpositions of A and B.
Sizes sizes(const Product& product);

bool is_fp8(cudaDataType type);

/// Returns an attribute of an algorithm's configuration: CUBLASLT_ALGO_CONFIG_ID and so on.
using Configured = std::uint32_t (*)(const cublasLtMatmulAlgo_t& algorithm, int attribute);

/// Records a call of cublasLtMatmul. `algorithm` is null if the library chooses. `heuristic` names
/// the heuristic that chose the algorithm, unless it is cuBLASLt's own.
void record_product(const Product& product, const cublasLtMatmulAlgo_t* algorithm,
                    Configured configured, std::size_t workspace, const char* heuristic);

}  // namespace optrace::emulated
