// All that a program has besides liboptrace.so. OPTRACE_MAIN names its function of programs.h.

#include "platform/programs.h"

int main(int count, char** values) {
  return optrace::OPTRACE_MAIN(count, values);
}
