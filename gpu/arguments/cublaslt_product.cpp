#include "gpu/arguments/cublaslt_product.h"

#include <string>
#include <utility>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cublas_names.h"
#include "gpu/arguments/cuda_data_types.h"
#include "gpu/arguments/enum_names.h"

namespace optrace::emulated {

Attributes layout_attributes(cudaDataType type, std::uint64_t rows, std::uint64_t columns,
                             std::int64_t ld) {
  Attributes made;
  set(made, CUBLASLT_MATRIX_LAYOUT_TYPE, type);
  set(made, CUBLASLT_MATRIX_LAYOUT_ORDER, static_cast<std::int32_t>(CUBLASLT_ORDER_COL));
  set(made, CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
  set(made, CUBLASLT_MATRIX_LAYOUT_COLS, columns);
  set(made, CUBLASLT_MATRIX_LAYOUT_LD, ld);
  set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{1});
  set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0});
  set(made, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, std::int64_t{0});
  return made;
}

Attributes descriptor_attributes(cublasComputeType_t compute, cudaDataType_t scale) {
  Attributes made;
  set(made, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute);
  set(made, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale);
  set(made, CUBLASLT_MATMUL_DESC_POINTER_MODE,
      static_cast<std::int32_t>(CUBLASLT_POINTER_MODE_HOST));
  for (const int name :
       {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSC})
    set(made, name, static_cast<std::int32_t>(CUBLAS_OP_N));
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_DEFAULT));
  set(made, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{0});
  set(made, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{0});
  return made;
}

cublasOperation_t transposition(const Product& product, int attribute) {
  return get(product.descriptor, attribute, CUBLAS_OP_N);
}

cudaDataType type_of(const Attributes& layout) {
  return get(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F);
}

std::int64_t rows(const Attributes& layout) {
  return get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, 0);
}
std::int64_t columns(const Attributes& layout) {
  return get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS, 0);
}

std::int64_t leading_bytes(const Attributes& layout) {
  return get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD, 0) *
         static_cast<std::int64_t>(data_type_bytes(type_of(layout)));
}

Sizes sizes(const Product& product) {
  const bool a = transposition(product, CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_N;
  const bool b = transposition(product, CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N;
  return {a ? columns(product.a) : rows(product.a), b ? rows(product.b) : columns(product.b),
          a ? rows(product.a) : columns(product.a)};
}

bool is_fp8(cudaDataType type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

namespace {

/// Returns the layout's memory order; the default is "col".
std::string order_name(const Attributes& layout) {
  const auto order = static_cast<cublasLtOrder_t>(
      get<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL));
  return short_name(enumerator_name<cublasLtOrder_t, 0, 5>(order), "CUBLASLT_ORDER_", order);
}

void put_layout(JsonText& json, const char* key, const Attributes& layout) {
  json.key(key);
  json.open('{');
  put(json, "rows", rows(layout));
  put(json, "cols", columns(layout));
  put(json, "ld", get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD, 0));
  put(json, "order", order_name(layout));
  put(json, "type", data_type_name(type_of(layout)));
  if (get<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1) > 1)
    put(json, "stride", get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0));
  json.close('}');
}

void put_algorithm(JsonText& json, const cublasLtMatmulAlgo_t* algorithm, Configured configured) {
  json.key("algorithm");
  if (algorithm == nullptr) {
    json.null();  // The library chooses the algorithm.
    return;
  }
  json.open('{');
  for (const auto& [name, attribute] : {std::pair{"id", CUBLASLT_ALGO_CONFIG_ID},
                                        {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID},
                                        {"split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
                                        {"reduction_scheme", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
                                        {"swizzling", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
                                        {"custom_option", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION},
                                        {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID}})
    put(json, name, static_cast<std::int64_t>(configured(*algorithm, attribute)));
  json.close('}');
}

/// Writes the names of the fp8 scales that are set.
void put_scales(JsonText& json, const Attributes& descriptor) {
  json.key("scales");
  json.open('[');
  for (const auto& [name, attribute] : {std::pair{"a", CUBLASLT_MATMUL_DESC_A_SCALE_POINTER},
                                        {"b", CUBLASLT_MATMUL_DESC_B_SCALE_POINTER},
                                        {"c", CUBLASLT_MATMUL_DESC_C_SCALE_POINTER},
                                        {"d", CUBLASLT_MATMUL_DESC_D_SCALE_POINTER}})
    if (get<const void*>(descriptor, attribute, nullptr) != nullptr) json.string(name);
  json.close(']');
#if CUBLAS_VERSION >= 120800
  using Scale = cublasLtMatmulMatrixScale_t;
#if CUBLAS_VERSION >= 120900
  constexpr std::size_t kModes = 8;
#else
  constexpr std::size_t kModes = 4;  // The enumerators span this many values.
#endif
  for (const auto& [name, attribute] :
       {std::pair{"a_scale_mode", CUBLASLT_MATMUL_DESC_A_SCALE_MODE},
        {"b_scale_mode", CUBLASLT_MATMUL_DESC_B_SCALE_MODE}}) {
    if (descriptor.bytes.count(attribute) == 0) continue;
    const auto mode = static_cast<Scale>(get<std::int32_t>(descriptor, attribute, 0));
    put(json, name,
        short_name(enumerator_name<Scale, 0, kModes>(mode), "CUBLASLT_MATMUL_MATRIX_SCALE_", mode));
  }
#endif
}

}  // namespace

void record_product(const Product& product, const cublasLtMatmulAlgo_t* algorithm,
                    Configured configured, std::size_t workspace, const char* heuristic) {
  Call call("cublasLtMatmul", "library");
  JsonText& json = call.json();
  const Sizes size = sizes(product);
  put(json, "m", size.m);
  put(json, "n", size.n);
  put(json, "k", size.k);
  put(json, "batch", get<std::int32_t>(product.d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1));
  put(json, "transa", operation_name(transposition(product, CUBLASLT_MATMUL_DESC_TRANSA)));
  put(json, "transb", operation_name(transposition(product, CUBLASLT_MATMUL_DESC_TRANSB)));
  put_layout(json, "a", product.a);
  put_layout(json, "b", product.b);
  put_layout(json, "c", product.c);
  put_layout(json, "d", product.d);
  const Attributes& descriptor = product.descriptor;
  const auto compute = get(descriptor, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F);
  put(json, "compute_type", compute_name(compute));
  put(json, "scale_type",
      data_type_name(get(descriptor, CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F)));
  const auto epilogue = get(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  constexpr std::size_t kEpilogues = 1024;
  put(json, "epilogue",
      short_name(enumerator_name<cublasLtEpilogue_t, 0, kEpilogues>(epilogue), "CUBLASLT_EPILOGUE_",
                 epilogue));
  const bool bias =
      get<const void*>(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr) != nullptr;
  put(json, "bias", bias);
  if (descriptor.bytes.count(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) != 0)
    put(json, "bias_type",
        data_type_name(get(descriptor, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F)));
  if (is_fp8(type_of(product.a)) || is_fp8(type_of(product.b))) {
    put_scales(json, descriptor);
    put(json, "fast_accumulation",
        get<std::int8_t>(descriptor, CUBLASLT_MATMUL_DESC_FAST_ACCUM, 0) != 0);
  }
  put_algorithm(json, algorithm, configured);
  if (heuristic != nullptr) put(json, "heuristic", heuristic);
  put(json, "workspace", workspace);
  call.record();
}

}  // namespace optrace::emulated
