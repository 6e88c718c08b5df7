// Included before each source of a prebuilt library. The functions get the versions that they had
// in every glibc since x86-64's first one, 2.2.5, instead of those that this machine's glibc gave
// them when it moved them to another of its files. They behave the same.

__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
