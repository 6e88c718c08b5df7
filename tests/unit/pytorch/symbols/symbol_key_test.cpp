#include "pytorch/symbols/symbol_key.h"

#include <random>

#include <catch2/catch.hpp>

using optrace::canonical_symbol;
using optrace::enclosing_function;
using optrace::function_key;
using optrace::lambda_key;
using optrace::source_file_of;
using optrace::template_key;

TEST_CASE("all instances of a template have its key") {
  CHECK(template_key("_ZNK3c1019TypedOperatorHandleIFvRN2at6TensorEEE4callES3_") ==
        "_ZN3c1019TypedOperatorHandle4callE");
  CHECK(template_key("_Z3maxIiET_S0_S0_") == "_ZN3maxE");
  CHECK(template_key("_ZN3FooIiEC2ERKS0_") == "_ZN3FooC1E");
  CHECK(template_key("_ZN2at12DispatchStubIPFvvEEclIJiEEEvDpOT_") == "_ZN2at12DispatchStubclE");
  CHECK(template_key("_ZN3FooIiEcvT_IfEEv") == "_ZN3FoocvE");
  CHECK(template_key("_ZSt4moveIiEvT_") == "_ZNSt4moveE");
  CHECK(template_key("_ZN2at6native7DEFAULT3fooEv") ==
        template_key("_ZN2at6native4AVX23fooIiEEvv"));
  for (const char* none : {"", "main", "_Z", "_ZZ3foovENKUlvE_clEv", "_ZTV3Foo", "_ZNSs6appendEv",
                           "_ZGVdN4v_Sleef_ceil"}) {
    CHECK_FALSE(template_key(none));
  }
}

TEST_CASE("a lambda lies in its function") {
  CHECK(enclosing_function("_ZZN2at6native4AVX2L3fooEvENKUlvE_clEv") ==
        "_ZN2at6native7DEFAULT3fooEv");
  CHECK(enclosing_function("_ZZZ3foovENKUlvE_clEvENKUlvE0_clEv") == "_ZZ3foovENKUlvE_clEv");
  CHECK_FALSE(enclosing_function("_ZN2at6native3fooEv"));
  CHECK_FALSE(enclosing_function("_ZZ"));
}

TEST_CASE("a lambda is keyed by its function, its parameters' letters and its number") {
  CHECK(lambda_key("_ZZN2at3fooEvENKUlvE_clEv") == "_ZN2at3fooEvUl#0");
  CHECK(lambda_key("_ZZN2at3fooEvENKUlvE0_clEv.isra.0") == "_ZN2at3fooEvUl#1");
  CHECK(lambda_key("_ZZN2at3fooEvENKUlllPKfE9_clEllS1_") == "_ZN2at3fooEvUlll.#10");
  CHECK(lambda_key("_ZZZN2at3fooEvENKUlvE_clEvENKUldE_clEd") == "_ZN2at3fooEvUl#0Uld#0");
  // In a template, the types of the parameters depend on the instance.
  CHECK(lambda_key("_ZZN2at3fooIfEEvvENKUlflE_clEfl") == "_ZN2at3fooEUl..#0");
  for (const char* none : {"", "_ZN2at3fooEv", "_ZZN2at3fooEvE1x", "_ZZN2at3fooEvENKUlvE_clE",
                           "_ZZN2at3fooEvENKUlvE"}) {
    INFO(none);
    CHECK(lambda_key(none).has_value() ==
          (std::string_view(none).find("clE") != std::string_view::npos));
  }
  CHECK(function_key("_ZN2at6native4AVX23fooEv.cold") == "_ZN2at6native7DEFAULT3fooEv");
  CHECK(function_key("_ZN2at3fooIfEEvv") == "_ZN2at3fooE");
  CHECK(function_key("sgemm_") == "sgemm_");
}

TEST_CASE("every spelling of an anonymous namespace is one") {
  const std::string key = "_ZN2at12_GLOBAL__N_13fooEv";
  CHECK(canonical_symbol("_ZN2at12_GLOBAL__N_13fooEv") == key);
  CHECK(canonical_symbol("_ZN2at31_GLOBAL__N__0fd2e8a0_7_Foo_cu_13fooEv") == key);
  CHECK(canonical_symbol("_ZN2at12_GLOBAL__N_1L3fooEv") == key);
}

TEST_CASE("internal linkage is dropped where it is linkage, and kept where it starts a literal") {
  CHECK(canonical_symbol("_ZN2at6nativeL3fooERKNS_6TensorE") == "_ZN2at6native3fooERKNS_6TensorE");
  CHECK(canonical_symbol("_ZL19THPVariable_conv2dP7_objectS0_S0_") ==
        "_Z19THPVariable_conv2dP7_objectS0_S0_");
  // Here, L3FooE... is an enumerator of Foo, not a function with internal linkage.
  CHECK(canonical_symbol("_Z1fIL3Foo1EEvv") == "_Z1fIL3Foo1EEvv");
  CHECK(canonical_symbol("_Z1fILb1EEvv") == "_Z1fILb1EEvv");
  CHECK(canonical_symbol("_Z1fIXadL_ZN2atL3fooEvEEEvv") == "_Z1fIXadL_ZN2at3fooEvEEEvv");
}

TEST_CASE("constructors and destructors have one variant") {
  CHECK(canonical_symbol("_ZN2at6TensorC2ERKS0_") == "_ZN2at6TensorC1ERKS0_");
  CHECK(canonical_symbol("_ZN2at6TensorD0Ev") == "_ZN2at6TensorD1Ev");
  CHECK(canonical_symbol("_ZN2at6TensorD2Ev") == "_ZN2at6TensorD1Ev");
  CHECK(canonical_symbol("_ZZN3FooC4EvENKUlvE_clEv") == "_ZZN3FooC1EvENKUlvE_clEv");
  // Letters inside a name are not constructor or destructor variants.
  CHECK(canonical_symbol("_ZN2at3C2D2D0Ev") == "_ZN2at3C2D2D0Ev");
  CHECK(canonical_symbol("_ZN2at5C2D0D1fEv") == "_ZN2at5C2D0D1fEv");
}

TEST_CASE("the namespaces of CPU capabilities are one, other things of that name are not") {
  CHECK(canonical_symbol("_ZN2at6native4AVX23fooENS1_3BarE") ==
        canonical_symbol("_ZN2at6native7DEFAULT3fooENS1_3BarE"));
  CHECK(canonical_symbol("_ZN2at6native6AVX5123fooEv") == "_ZN2at6native7DEFAULT3fooEv");
  CHECK(canonical_symbol("_ZN2at4AVX2Ev") == "_ZN2at4AVX2Ev");
}

TEST_CASE("what the compiler hung onto a name is cut") {
  const std::string key = "_ZN2at3addEv";
  for (const char* suffix : {"", ".cold", ".isra.0", ".part.1", ".constprop.2", ".part.1.cold",
                             ".localalias", "@@TORCH_2", "@TORCH_2"}) {
    CHECK(canonical_symbol(key + suffix) == key);
  }
}

TEST_CASE("clang's stub for a CUDA kernel has the kernel's key") {
  CHECK(canonical_symbol("_ZN2at6native27__device_stub__fill_kernel1Ev") ==
        canonical_symbol("_ZN2at6native12fill_kernel1Ev"));
}

TEST_CASE("names with expressions, packs and lambdas are read to their end") {
  // The suffix is cut only if everything before it was understood.
  for (const std::string name :
       {"_ZN3c104implL8gcd_implIiEENSt9enable_ifIXsr3std11is_integralIT_EE5valueES3_E4typeES3_S3_",
        "_Z1fIJifEEDTcl1gspfp_EEDpT_", "_ZZN2at3fooEvENKUliT_E0_clIfEEDaiS0_",
        "_ZNSt5dequeI3FooSaIS0_EE12emplace_backIIS0_EEERS0_DpOT_",
        "_ZN8pybind116class_IN2at3FooEJEEC2IJA290_cEEENS_6handleEPKcDpRKT_"}) {
    INFO(name);
    CHECK(canonical_symbol(name + ".cold") == canonical_symbol(name));
  }
}

TEST_CASE("what is no mangled name stays as it is") {
  for (const char* name :
       {"", "_", "_Z", "_ZN", "_ZN2at", "main", "sgemm_.cold", "cudnnBackendExecute@@libcudnn.so.9",
        "_ZGVdN4v_Sleef_ceil", "_ZN99999999999999999999999at3addEv", "_Z3ad"}) {
    CHECK(canonical_symbol(name) == name);
  }
}

TEST_CASE("a key is its own key") {
  for (const char* name : {"_ZN2at6native4AVX23fooENS1_3BarE", "_ZNK2at6Tensor3addERKS0_.cold",
                           "_ZThn16_N3FooD0Ev", "_ZN2at12_GLOBAL__N_1L3fooEv"}) {
    const std::string key = canonical_symbol(name);
    CHECK(canonical_symbol(key) == key);
  }
}

TEST_CASE("damaged names end, whatever they look like") {
  const std::string name =
      "_ZN3c104impl28wrap_kernel_functor_unboxed_INS0_6detail24WrapFunctionIntoFunctor_INS_"
      "26CompileTimeFunctionPointerIFN2at6TensorENS_14DispatchKeySetENS_6SymIntES8_St8optionalINS_"
      "10ScalarTypeEES9_INS_6LayoutEES9_INS_6DeviceEES9_IbEEXadL_ZN5torch9TraceType12_GLOBAL__N_"
      "15eye_mES7_S8_S8_SB_SD_SF_SG_EEEES6_NS_4guts8typelist8typelistIJS7_S8_S8_SB_SD_SF_SG_"
      "EEEEESH_E4callEPNS_14OperatorKernelES7_S8_S8_SB_SD_SF_SG_";
  CHECK(canonical_symbol(name + ".cold") == canonical_symbol(name));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = name.substr(0, 2 + random() % (name.size() - 2));
    for (auto flips = random() % 4; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    (void)canonical_symbol(damaged);
  }
  CHECK(canonical_symbol("_Z" + std::string(100000, 'P')) == "_Z" + std::string(100000, 'P'));
  std::string deep = "_Z1f";
  for (int level = 0; level < 50000; ++level) {
    deep += "I1a";
  }
  CHECK(canonical_symbol(deep) == deep);
}

TEST_CASE("nvcc names the file that a symbol is of") {
  const auto of = [](const char* symbol, const char* file = "") {
    return source_file_of(symbol, file);
  };
  CHECK(of("_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_"
           "9c5ada8a19LayerNormKernelEv") == "layer_norm_kernel.cu");
  CHECK(of("_ZN2at6native68_GLOBAL__N__3e09acab_29_ActivationHardshrinkKernel_cu_12b5126a_"
           "245921fEv") == "ActivationHardshrinkKernel.cu");
  CHECK(of("_ZN2at6nativeL1fEv",
           "tmpxft_00007749_00000000-6_MaxUnpooling.compute_90.cudafe1.cpp") == "MaxUnpooling.cu");
  CHECK(of("_ZN2at6nativeL1fEv", "tmpxft_00007749_00000000-6_AsyncMM.cudafe1.cpp") == "AsyncMM.cu");
  CHECK(of("_ZN2at6nativeL1fEv", "add.cpp.AVX2.cpp") == "add.cpp.AVX2.cpp");
  for (const char* const other :
       {"", "_ZN2at6native12_GLOBAL__N_11fEv", "_GLOBAL__N__", "_GLOBAL__N__ab", "_GLOBAL__N__ab_",
        "_GLOBAL__N__ab_99_x_cu", "_GLOBAL__N__ab_3_cpp_", "_GLOBAL__N__ab_3__cu_",
        "_GLOBAL__N__ab_99999999999999999999999_x_cu_"}) {
    INFO(other);
    CHECK(of(other).empty());
  }
  for (const char* const other : {"tmpxft_.cudafe1.cpp", "tmpxft_1-6.cudafe1.cpp",
                                  "tmpxft_1-6_.cudafe1.cpp", "tmpxft_x_6.cudafe1.cpp"}) {
    INFO(other);
    CHECK(of("f", other) == other);
  }
}
