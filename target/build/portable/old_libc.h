// Included before each source of a prebuilt library. The functions get the versions that they had
// in every glibc since x86-64's first one, 2.2.5, instead of those that this machine's glibc gave
// them when it moved them to another of its files. They behave the same.

__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_detach,pthread_detach@GLIBC_2.2.5");
__asm__(".symver shm_open,shm_open@GLIBC_2.2.5");
__asm__(".symver shm_unlink,shm_unlink@GLIBC_2.2.5");
