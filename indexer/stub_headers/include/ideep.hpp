// Stands in for Intel's ideep and oneDNN's C++ interface, which no wheel brings: the names that
// PyTorch's calls mention, so that those calls have types and can be found. Never compiled to code.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace dnnl {

struct memory {
  using dim = std::int64_t;
  using dims = std::vector<dim>;
  enum class data_type { undef, f16, bf16, f32, f64, s32, s8, u8 };
  enum class format_tag {
    undef,
    any,
    a,
    ab,
    abc,
    abcd,
    abcde,
    ba,
    tnc,
    ntc,
    ldnc,
    ldgo,
    ldgoi,
    ldigo,
    nc,
    ncw,
    nwc,
    nchw,
    nhwc,
    ncdhw,
    ndhwc,
    oi,
    io,
    oiw,
    oihw,
    oidhw,
    goiw,
    goihw,
    goidhw,
    giohw,
    giodhw,
    iohw,
    iodhw
  };
  class desc {};
};

enum class prop_kind {
  undef,
  forward,
  forward_training,
  forward_inference,
  forward_scoring,
  backward,
  backward_data,
  backward_weights,
  backward_bias
};

enum class algorithm {
  undef,
  convolution_auto,
  convolution_direct,
  convolution_winograd,
  deconvolution_direct,
  eltwise_relu,
  eltwise_tanh,
  eltwise_elu,
  eltwise_square,
  eltwise_abs,
  eltwise_sqrt,
  eltwise_swish,
  eltwise_linear,
  eltwise_logistic,
  eltwise_clip,
  eltwise_exp,
  eltwise_gelu_erf,
  eltwise_gelu_tanh,
  eltwise_hardswish,
  eltwise_mish,
  eltwise_hardsigmoid,
  pooling_max,
  pooling_avg_include_padding,
  pooling_avg_exclude_padding,
  vanilla_rnn,
  vanilla_lstm,
  vanilla_gru,
  lbr_gru,
  binary_add,
  binary_mul,
  binary_max,
  binary_min,
  binary_div,
  binary_sub
};

enum class rnn_direction { unidirectional_left2right, unidirectional_right2left };

class engine {
 public:
  enum class kind { any, cpu, gpu };
};
class stream {};
class post_ops {
 public:
  template <class... A>
  void append_binary(A&&...);
  template <class... A>
  void append_eltwise(A&&...);
  template <class... A>
  void append_sum(A&&...);
};
class primitive {};

}  // namespace dnnl

enum dnnl_fpmath_mode_t { dnnl_fpmath_mode_strict, dnnl_fpmath_mode_bf16 };

namespace ideep {

// An argument of any type, lists in braces included; many of them, all optional.
struct stand_in_value {
  template <class... A>
  stand_in_value(A&&...);
};
#define IDEEP_FOUR \
  stand_in_value = {}, stand_in_value = {}, stand_in_value = {}, stand_in_value = {}
#define IDEEP_ANYTHING IDEEP_FOUR, IDEEP_FOUR, IDEEP_FOUR, IDEEP_FOUR, IDEEP_FOUR, IDEEP_FOUR

using dim = dnnl::memory::dim;
using dims = dnnl::memory::dims;
using data_type = dnnl::memory::data_type;
using format_tag = dnnl::memory::format_tag;
using tag = dnnl::memory::format_tag;
using prop_kind = dnnl::prop_kind;
using algorithm = dnnl::algorithm;
using post_ops = dnnl::post_ops;
using rnn_direction = dnnl::rnn_direction;
using scale_t = std::vector<float>;
using zero_point_t = std::vector<std::int32_t>;
using exec_args = std::unordered_map<int, dnnl::memory>;

enum rnn_kind { RNN_RELU, RNN_TANH, LSTM, GRU };
enum lowp_kind { u8s8, s8s8 };

constexpr data_type f32 = data_type::f32;
constexpr data_type u8 = data_type::u8;
constexpr data_type s8 = data_type::s8;

struct engine : dnnl::engine {
  static engine& cpu_engine();
};
struct stream : dnnl::stream {
  static stream& default_stream();
};

bool has_bf16_type_support();
bool has_fp16_type_support();

struct attr_t {
  template <auto... V>
  attr_t(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_sum(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_relu(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_relu_v2(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_tanh(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_sigmoid(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_gelu(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_elu(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_swish(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_clamp(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_hardswish(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t fuse_binary(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t residual(IDEEP_ANYTHING);
  template <auto... V>
  static attr_t residual_with_sum_zero_point(IDEEP_ANYTHING);
  template <auto... V>
  void set_fpmath_mode(IDEEP_ANYTHING);
  post_ops get_post_ops() const;
  void set_post_ops(const post_ops&);
};

struct tensor {
  using dim = ideep::dim;
  using dims = ideep::dims;
  using data_type = ideep::data_type;
  using format_tag = ideep::format_tag;
  struct desc {
    template <auto... V>
    desc(IDEEP_ANYTHING);
    dims get_dims() const;
    data_type get_data_type() const;
    template <auto... V>
    desc to_type(IDEEP_ANYTHING) const;
    template <auto... V>
    desc to_grouped(IDEEP_ANYTHING) const;
    template <auto... V>
    desc transpose(IDEEP_ANYTHING) const;
    std::size_t get_size() const;
    bool is_nhwc() const;
    bool is_channels_last() const;
    bool operator==(const desc&) const;
    bool operator!=(const desc&) const;
  };
  template <auto... V>
  tensor(IDEEP_ANYTHING);
  template <auto... V>
  void init(IDEEP_ANYTHING);
  template <auto... V>
  void reinit_if_possible(IDEEP_ANYTHING);
  template <auto... V>
  void feed_from(IDEEP_ANYTHING);
  template <auto... V>
  tensor to_public(IDEEP_ANYTHING) const;
  template <auto... V>
  tensor reorder_if_differ_in(IDEEP_ANYTHING) const;
  template <auto... V>
  void reorder_to(IDEEP_ANYTHING) const;
  template <auto... V>
  void reorder_from(IDEEP_ANYTHING);
  template <auto... V>
  tensor& transpose_(IDEEP_ANYTHING);
  template <auto... V>
  tensor& reshape(IDEEP_ANYTHING);
  template <auto... V>
  tensor& permute_(IDEEP_ANYTHING);
  template <auto... V>
  void make_grouped_weights(IDEEP_ANYTHING) const;
  template <auto... V>
  void set_data_handle(IDEEP_ANYTHING);
  template <auto... V>
  void set_scale(IDEEP_ANYTHING);
  template <auto... V>
  void set_zero_point(IDEEP_ANYTHING);
  void* get_data_handle() const;
  dims get_dims() const;
  dim get_dim(int) const;
  dims get_strides() const;
  desc get_desc() const;
  data_type get_data_type() const;
  int ndims() const;
  dim get_nelems() const;
  std::size_t get_size() const;
  bool is_empty() const;
  bool is_public_format() const;
  bool has_workspace() const;
  bool has_scale() const;
  bool has_zero_point() const;
  tensor& get_workspace() const;
  scale_t get_scale() const;
  zero_point_t get_zero_point() const;
};

struct convolution_forward_params {
  template <auto... V>
  convolution_forward_params(IDEEP_ANYTHING);
};
struct deconv_forward_params {
  template <auto... V>
  deconv_forward_params(IDEEP_ANYTHING);
};
struct matmul_forward_params {
  template <auto... V>
  matmul_forward_params(IDEEP_ANYTHING);
};

// Each has its own functions, so that a call names the computation.
#define IDEEP_COMPUTATION(name)                                \
  struct name {                                                \
    template <auto... V>                                       \
    static void compute(IDEEP_ANYTHING);                       \
    template <auto... V>                                       \
    static void compute_v2(IDEEP_ANYTHING);                    \
    template <auto... V>                                       \
    static void compute_v3(IDEEP_ANYTHING);                    \
    template <auto... V>                                       \
    static void compute_binary(IDEEP_ANYTHING);                \
    template <auto... V>                                       \
    static void prepare(IDEEP_ANYTHING);                       \
    template <auto... V>                                       \
    static tensor::desc expected_weights_desc(IDEEP_ANYTHING); \
  };

IDEEP_COMPUTATION(convolution_forward)
IDEEP_COMPUTATION(convolution_backward_data)
IDEEP_COMPUTATION(convolution_backward_weights)
IDEEP_COMPUTATION(convolution_transpose_forward)
IDEEP_COMPUTATION(convolution_transpose_backward_data)
IDEEP_COMPUTATION(convolution_transpose_backward_weights)
IDEEP_COMPUTATION(inner_product_forward)
IDEEP_COMPUTATION(inner_product_backward_data)
IDEEP_COMPUTATION(inner_product_backward_weights)
IDEEP_COMPUTATION(matmul_forward)
IDEEP_COMPUTATION(softmax_forward)
IDEEP_COMPUTATION(eltwise_forward)
IDEEP_COMPUTATION(eltwise_backward)
IDEEP_COMPUTATION(prelu_forward)
IDEEP_COMPUTATION(prelu_backward)
IDEEP_COMPUTATION(pooling_forward)
IDEEP_COMPUTATION(pooling_backward)
IDEEP_COMPUTATION(layer_normalization_forward)
IDEEP_COMPUTATION(batch_normalization_forward_training)
IDEEP_COMPUTATION(batch_normalization_forward_inference)
IDEEP_COMPUTATION(batch_normalization_backward)
IDEEP_COMPUTATION(lstm_forward_inference)
IDEEP_COMPUTATION(lstm_forward_training)
IDEEP_COMPUTATION(lstm_backward)
IDEEP_COMPUTATION(binary)
IDEEP_COMPUTATION(sum)
IDEEP_COMPUTATION(direct_copy)

namespace utils {
template <auto... V>
dims group_dims(IDEEP_ANYTHING);
template <auto... V>
dims get_compatible_dilates(IDEEP_ANYTHING);
template <auto... V>
int conv_weight_scale_mask(IDEEP_ANYTHING);
template <auto... V>
int op_scale_mask(IDEEP_ANYTHING);
template <auto... V>
bool set_verbose(IDEEP_ANYTHING);
}  // namespace utils

}  // namespace ideep
