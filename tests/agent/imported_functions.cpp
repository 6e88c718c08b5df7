// The functions that the importing libraries import.

extern "C" {

int imported_double(int value) {
  return 2 * value;
}

int imported_negate(int value) {
  return -value;
}
}
