include(${CMAKE_CURRENT_LIST_DIR}/optraceTargets.cmake)
