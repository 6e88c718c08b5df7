#include "pytorch/functions/probed_functions.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("functions of a namespace have probes at any depth") {
  CHECK(is_probed("_ZN2at6native3addERKNS_6TensorES3_"));
  CHECK(is_probed("_ZN2at6native12_GLOBAL__N_19add_implEv"));
  CHECK(is_probed("_ZZN2at6native3addERKNS_6TensorES3_ENKUlvE_clEv"));
  CHECK_FALSE(is_probed("_ZN2at3mps3addEv"));
}

TEST_CASE("functions directly in a namespace have probes where those below it have none") {
  CHECK(is_probed("_ZN2at3addERKNS_6TensorES2_"));
  CHECK_FALSE(is_probed("_ZN2at9functions3addEv"));
  CHECK(is_probed("_ZN7qnnpack10qnnpackRunEv"));
  CHECK_FALSE(is_probed("_ZN7qnnpack6detail3runEv"));
}

TEST_CASE("a part of the name selects steps of the dispatcher") {
  CHECK(is_probed("_ZN2at4_ops10add_Tensor4callERKNS_6TensorE"));
  CHECK_FALSE(is_probed("_ZN2at4_ops10add_Tensor6schemaEv"));
  CHECK(is_probed("_ZN3c104impl28wrap_kernel_functor_unboxed_INS0_1fEE4callEv"));
  CHECK_FALSE(is_probed("_ZN3c104impl29make_boxed_from_unboxed_functorINS0_1fEE4callEv"));
}

TEST_CASE("generated wrappers and bindings have probes") {
  CHECK(is_probed("_ZN2at12_GLOBAL__N_112_GLOBAL__N_115wrapper_CPU_mulEv"));
  CHECK(is_probed("_ZN5torch8autogradL18THPVariable_conv2dEP7_objectS2_S2_"));
  CHECK(is_probed("_Z14THPEngine_stepP7_object"));
  CHECK_FALSE(is_probed("THPEngine_step"));
}

TEST_CASE("the interfaces of libraries have probes by their C names") {
  CHECK(is_probed("cudnnBackendExecute"));
  CHECK(is_probed("dnnl_primitive_execute"));
  CHECK_FALSE(is_probed("dnnl_primitive_create"));
  CHECK(is_probed("cudaSetDevice"));
  CHECK_FALSE(is_probed("cudaSetDeviceFlags"));
  CHECK_FALSE(is_probed("_Z19cudnnBackendExecutev"));
}

TEST_CASE("a capital letter tells MKL's vector math from its other functions") {
  CHECK(is_probed("vmsSin"));
  CHECK_FALSE(is_probed("vmssin"));
  CHECK_FALSE(is_probed("vmlSetMode"));
}

TEST_CASE("functions of BLAS and LAPACK have probes in Fortran's spelling") {
  CHECK(is_probed("sgemm_"));
  CHECK(is_probed("zheevd_"));
  CHECK_FALSE(is_probed("sasum_"));
  CHECK_FALSE(is_probed("sgemm"));
  CHECK_FALSE(is_probed("xgemm_"));
}

TEST_CASE("regions of OpenMP have probes") {
  CHECK(is_probed("GOMP_parallel"));
  CHECK_FALSE(is_probed("GOMP_parallel_end"));
  CHECK(is_probed("_ZN2at8internal15invoke_parallelEv._omp_fn.0"));
}

TEST_CASE("destructors and leaves that are called often have no probes") {
  CHECK_FALSE(is_probed("_ZN2at6native4FuncD1Ev"));
  CHECK_FALSE(is_probed("_ZN2at6native16DispatchStubImpl20get_call_ptrEv"));
  CHECK_FALSE(is_probed("_ZN5torch8autograd16THPVariable_WrapEv"));
  CHECK_FALSE(is_probed(""));
}
