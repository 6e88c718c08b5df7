// Stand-in for thrust's complex numbers, which no wheel contains: the declarations that
// c10::complex uses (c10/util/complex.h). Never compiled to code.
#pragma once

namespace thrust {

template <class T>
struct complex {
  using value_type = T;
  complex(const T& real = T(), const T& imag = T());
  template <class U>
  complex(const complex<U>&);
  T real() const;
  T imag() const;
};

#define OPTRACE_STAND_IN_REAL(name) \
  template <class T>                \
  __host__ __device__ T name(const complex<T>&);
#define OPTRACE_STAND_IN_COMPLEX(name) \
  template <class T>                   \
  __host__ __device__ complex<T> name(const complex<T>&);
OPTRACE_STAND_IN_REAL(abs)
OPTRACE_STAND_IN_REAL(arg)
OPTRACE_STAND_IN_REAL(norm)
OPTRACE_STAND_IN_COMPLEX(acos)
OPTRACE_STAND_IN_COMPLEX(acosh)
OPTRACE_STAND_IN_COMPLEX(asin)
OPTRACE_STAND_IN_COMPLEX(asinh)
OPTRACE_STAND_IN_COMPLEX(atan)
OPTRACE_STAND_IN_COMPLEX(atanh)
OPTRACE_STAND_IN_COMPLEX(conj)
OPTRACE_STAND_IN_COMPLEX(cos)
OPTRACE_STAND_IN_COMPLEX(cosh)
OPTRACE_STAND_IN_COMPLEX(exp)
OPTRACE_STAND_IN_COMPLEX(log)
OPTRACE_STAND_IN_COMPLEX(log10)
OPTRACE_STAND_IN_COMPLEX(proj)
OPTRACE_STAND_IN_COMPLEX(sin)
OPTRACE_STAND_IN_COMPLEX(sinh)
OPTRACE_STAND_IN_COMPLEX(sqrt)
OPTRACE_STAND_IN_COMPLEX(tan)
OPTRACE_STAND_IN_COMPLEX(tanh)
#undef OPTRACE_STAND_IN_REAL
#undef OPTRACE_STAND_IN_COMPLEX
template <class T>
__host__ __device__ complex<T> polar(const T&, const T& = T());
template <class T, class U>
__host__ __device__ complex<T> pow(const complex<T>&, const U&);
template <class T>
__host__ __device__ complex<T> pow(const T&, const complex<T>&);

}  // namespace thrust
