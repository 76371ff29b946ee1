# LibTorch from the PyPI wheel as our own imported targets: the wheel's CMake package wants a CUDA
# toolkit even for a CPU build, and ignores CMAKE_CUDA_ARCHITECTURES.
#   retina::torch       libtorch_cpu + libc10 (+ libtorch_cuda + libc10_cuda with RETINA_WITH_CUDA)

if(NOT RETINA_SITE_PACKAGES)
  file(GLOB RETINA_FOUND_TORCH ${CMAKE_SOURCE_DIR}/.deps/*/lib/python3*/site-packages/torch)
  list(LENGTH RETINA_FOUND_TORCH RETINA_FOUND_COUNT)
  if(RETINA_FOUND_COUNT EQUAL 0)
    message(FATAL_ERROR "LibTorch not found: run `make deps`, or set RETINA_SITE_PACKAGES")
  endif()
  list(GET RETINA_FOUND_TORCH 0 RETINA_FOUND_TORCH)
  cmake_path(GET RETINA_FOUND_TORCH PARENT_PATH RETINA_FOUND_SITE)
  set(RETINA_SITE_PACKAGES ${RETINA_FOUND_SITE} CACHE PATH "" FORCE)
endif()
set(RETINA_TORCH ${RETINA_SITE_PACKAGES}/torch)
if(NOT EXISTS ${RETINA_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in ${RETINA_SITE_PACKAGES}: run `make deps`")
endif()
file(STRINGS ${RETINA_TORCH}/version.py RETINA_TORCH_VERSION REGEX "^__version__")
string(REGEX REPLACE ".*'([^']+)'.*" "\\1" RETINA_TORCH_VERSION "${RETINA_TORCH_VERSION}")

add_library(retina_torch INTERFACE)
add_library(retina::torch ALIAS retina_torch)
target_include_directories(retina_torch SYSTEM INTERFACE
  ${RETINA_TORCH}/include ${RETINA_TORCH}/include/torch/csrc/api/include)
target_compile_options(retina_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_options(retina_torch INTERFACE
  -Wl,-rpath,${RETINA_TORCH}/lib -Wl,-rpath,${RETINA_SITE_PACKAGES}/nvidia/cu13/lib
  -Wl,-rpath-link,${RETINA_TORCH}/lib:${RETINA_SITE_PACKAGES}/nvidia/cu13/lib)
target_link_libraries(retina_torch INTERFACE
  ${RETINA_TORCH}/lib/libtorch_cpu.so ${RETINA_TORCH}/lib/libc10.so
  ${RETINA_TORCH}/lib/libgomp.so.1 Threads::Threads)
