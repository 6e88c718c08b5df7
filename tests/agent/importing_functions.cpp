// A library that calls functions of another one through its import tables, in every possible way.

extern "C" {

int imported_double(int value);
int imported_negate(int value);

int importing_own(int value) {
  return value + 1;
}

// R_X86_64_64.
int (*importing_table[])(int) = {imported_double, imported_negate};

// JUMP_SLOT, or GLOB_DAT with -fno-plt.
int importing_calls_double(int value) {
  return imported_double(value) + 0;
}
int importing_calls_negate(int value) {
  return imported_negate(value) + 0;
}
int importing_calls_own(int value) {
  return importing_own(value) + 0;
}

int importing_calls_through_table(int value) {
  return importing_table[0](value) + 0;
}
}
