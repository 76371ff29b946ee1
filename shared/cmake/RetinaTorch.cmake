# LibTorch from the PyPI wheel as our own imported targets: the wheel's CMake package wants a CUDA
# toolkit even for a CPU build, and ignores CMAKE_CUDA_ARCHITECTURES.
#   retina::torch   libtorch_cpu + libc10; with RETINA_WITH_CUDA also libtorch_cuda + libc10_cuda
#   retina::cudart  the CUDA runtime that LibTorch loads (RETINA_WITH_CUDA only)
#   retina::nccl    NCCL of the same wheels (RETINA_WITH_CUDA only)

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
# TensorOperators.h then leaves out the list of all 2,000 functions.
target_compile_definitions(retina_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_options(retina_torch INTERFACE
  -Wl,-rpath-link,${RETINA_TORCH}/lib:${RETINA_SITE_PACKAGES}/nvidia/cu13/lib)
target_link_libraries(retina_torch INTERFACE
  ${RETINA_TORCH}/lib/libtorch_cpu.so ${RETINA_TORCH}/lib/libc10.so
  ${RETINA_TORCH}/lib/libgomp.so.1 Threads::Threads)

if(RETINA_WITH_CUDA)
  set(RETINA_NVIDIA ${RETINA_SITE_PACKAGES}/nvidia)
  set(RETINA_CUDART ${RETINA_NVIDIA}/cu13/lib/libcudart.so.13)
  set(RETINA_NCCL ${RETINA_NVIDIA}/nccl/lib/libnccl.so.2)
  foreach(file ${RETINA_CUDART} ${RETINA_NCCL} ${RETINA_TORCH}/lib/libtorch_cuda.so)
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "missing ${file}: run `make deps FLAVOUR=cuda`")
    endif()
  endforeach()

  add_library(retina_cudart INTERFACE)
  add_library(retina::cudart ALIAS retina_cudart)
  # nvcc brings its own headers for .cu files. The wheel's lack crt/ and nv/, which are the
  # toolkit's; nvcc finds these by itself, g++ does not.
  set(RETINA_CUDA_HEADERS ${RETINA_NVIDIA}/cu13/include)
  foreach(folder ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
    list(APPEND RETINA_CUDA_HEADERS ${folder} ${folder}/cccl)
  endforeach()
  target_include_directories(retina_cudart SYSTEM INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${RETINA_CUDA_HEADERS}>")
  target_link_libraries(retina_cudart INTERFACE ${RETINA_CUDART})

  add_library(retina_nccl INTERFACE)
  add_library(retina::nccl ALIAS retina_nccl)
  target_include_directories(retina_nccl SYSTEM INTERFACE ${RETINA_NVIDIA}/nccl/include)
  target_link_libraries(retina_nccl INTERFACE ${RETINA_NCCL} retina_cudart)

  # Only training's CUDA graphs name symbols of libtorch_cuda.so: it registers its kernels when it is loaded,
  # so the linker must keep it. A target with the property RETINA_OWN_DEVICE has its own in its place.
  target_link_options(retina_torch INTERFACE -Wl,--no-as-needed)
  target_link_libraries(retina_torch INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:RETINA_OWN_DEVICE>>>:${RETINA_TORCH}/lib/libtorch_cuda.so>
    ${RETINA_TORCH}/lib/libc10_cuda.so retina_cudart)
endif()
