# How every target of the project is made: one language level, warnings as errors, one include root.

# A compiler that continuous integration does not see may warn of more: that must not stop a build.
set(werror OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(werror ON)
endif()
option(RETINA_WERROR "Treat warnings as errors" ${werror})
# Parsing the headers of LibTorch and the standard library is most of the work: with this ON it is
# done once for what nearly every source includes, and sources are compiled by fours. A source that
# forgets an include fails in the debug preset, which leaves it OFF.
option(RETINA_QUICK_BUILD "Precompile headers and join sources: less than half the work" ON)

add_library(retina_options INTERFACE)
target_compile_features(retina_options INTERFACE cxx_std_20)
target_include_directories(retina_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(retina_options INTERFACE OMPI_SKIP_MPICXX)
target_compile_options(retina_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor
                            -Woverloaded-virtual $<$<BOOL:${RETINA_WERROR}>:-Werror> -ffp-contract=off
                            -fPIC -fno-semantic-interposition>  # most of it is in a MODULE, too
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>
  # GCC 12 sees overlaps in std::string that are not there (GCC bug 105329), and with precompiled
  # headers overflows and overreads too, which it otherwise keeps to itself as in a system header.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict
    $<$<BOOL:${RETINA_QUICK_BUILD}>:-Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds>>)
if(RETINA_SANITIZE)
  target_compile_options(retina_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${RETINA_SANITIZE} -fno-sanitize-recover=all
                              -fno-omit-frame-pointer>
    # GCC's manual: sanitizers give false warnings. The release build is checked without them.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  # dlopen() is the sanitizer's then, whose library has no run path: the program's is to count there.
  target_link_options(retina_options INTERFACE -fsanitize=${RETINA_SANITIZE} -Wl,--disable-new-dtags)
endif()

find_program(RETINA_CCACHE ccache)
if(RETINA_CCACHE)
  # ccache's manual, "Precompiled headers".
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${RETINA_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${RETINA_CCACHE})
endif()

# For after cmake_parse_arguments(ARG ...): a stray word ends the configuration.
macro(retina_no_stray_arguments)
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: stray arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

# What nearly every source parses, compiled once: headers of the standard library and RapidJSON, and
# for sources that use LibTorch those of its tensors. None of our own.
function(retina_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPENDS" ${ARGN})
  retina_no_stray_arguments()
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "// Carries the precompiled headers.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE retina_options ${ARG_DEPENDS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()
set(RETINA_COMMON_HEADERS
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem>
  <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
  <string_view> <thread> <utility> <vector>
  <rapidjson/document.h> <rapidjson/stringbuffer.h> <rapidjson/writer.h>)

# retina_library(NAME [TORCH] [MODULE] SOURCES a.cpp ... DEPENDS retina::base ...): static library
# retina_NAME with the alias retina::NAME. TORCH: its sources use LibTorch. MODULE: instead
# lib/libretina_NAME.so, which a program opens by name.
function(retina_library name)
  cmake_parse_arguments(ARG "TORCH;MODULE" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  retina_no_stray_arguments()
  if(ARG_MODULE)
    add_library(retina_${name} MODULE ${ARG_SOURCES})
  else()
    add_library(retina_${name} STATIC ${ARG_SOURCES})
    add_library(retina::${name} ALIAS retina_${name})
  endif()
  target_link_libraries(retina_${name} PUBLIC retina_options ${ARG_DEPENDS}
                        PRIVATE ${ARG_PRIVATE_DEPENDS})
  if(RETINA_QUICK_BUILD)
    set(headers retina_headers)
    if(ARG_TORCH)
      set(headers retina_torch_headers)
    endif()
    target_precompile_headers(retina_${name} REUSE_FROM ${headers})
    set_target_properties(retina_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  endif()
endfunction()

# retina_program(NAME DEPENDS ...): executable NAME from main.cpp.
function(retina_program name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  retina_no_stray_arguments()
  add_executable(${name} main.cpp)
  target_link_libraries(${name} PRIVATE retina::allocator ${ARG_DEPENDS})
endfunction()
