# Everything from outside, as imported targets.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(RapidJSON CONFIG REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4>=4.5)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
# 7.85 names protocols by text; SigV4 came with 7.75.
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(PUGIXML REQUIRED IMPORTED_TARGET pugixml)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-cpp)
pkg_check_modules(TCMALLOC REQUIRED IMPORTED_TARGET libtcmalloc_minimal)

add_library(retina_rapidjson INTERFACE)
target_include_directories(retina_rapidjson SYSTEM INTERFACE ${RapidJSON_INCLUDE_DIRS})
target_compile_definitions(retina_rapidjson INTERFACE RAPIDJSON_HAS_STDSTRING=1)

# What programs allocate with. A step's tensors come and go by the gigabyte: glibc's allocator gives
# much of that back to the kernel each time and gets it anew, page by page.
add_library(retina_allocator INTERFACE)
add_library(retina::allocator ALIAS retina_allocator)
if(NOT RETINA_SANITIZE)  # sanitizers bring their own
  target_link_libraries(retina_allocator INTERFACE PkgConfig::TCMALLOC)
endif()

if(RETINA_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# Open MPI's C interface alone, without its compiler's run path: FindMPI's target also links the old
# C++ one, which Open MPI 5 lacks.
find_package(MPI REQUIRED COMPONENTS CXX)
add_library(retina_mpi_c INTERFACE)
add_library(retina::mpi_c ALIAS retina_mpi_c)
target_include_directories(retina_mpi_c SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
target_link_libraries(retina_mpi_c INTERFACE ${MPI_mpi_LIBRARY})

if(RETINA_QUICK_BUILD)
  retina_precompile(retina_headers HEADERS ${RETINA_COMMON_HEADERS} DEPENDS retina_rapidjson)
endif()
if(RETINA_WITH_TORCH)
  include(RetinaTorch)
  if(RETINA_QUICK_BUILD)
    retina_precompile(retina_torch_headers
      HEADERS ${RETINA_COMMON_HEADERS} <ATen/Context.h> <ATen/core/Tensor.h>
              <ATen/core/grad_mode.h> <ATen/ops/empty.h>
      DEPENDS retina_rapidjson retina::torch)
  endif()
endif()
include(RetinaOnnx)
