# Run by `cmake --install` for the component `libraries` (the distribution's) or `wheels`: copies what
# the files `loading` and those that match `opened` load, themselves or through others. RetinaInstall.cmake
# sets the variables.

cmake_policy(VERSION 3.25)

# The floor: a newer system's own are at least as new, and must not be mixed with older ones.
set(floor "^(ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\\+\\+))\\.so")
set(driver "^libcuda\\.so")  # comes with the GPU

set(opened_files "")
foreach(pattern ${opened})
  file(GLOB found ${site_packages}/${pattern})
  if(NOT found)
    message(FATAL_ERROR "${site_packages}: has no ${pattern}, which is opened by name; hint: does "
                        "the list in RetinaInstall.cmake fit these wheels?")
  endif()
  list(APPEND opened_files ${found})
endforeach()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${loading} MODULES ${opened_files}
     RESOLVED_DEPENDENCIES_VAR files PRE_EXCLUDE_REGEXES ${floor} ${driver})
list(APPEND files ${opened_files})
list(REMOVE_DUPLICATES files)

cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
cmake_path(ABSOLUTE_PATH licences BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")

# From the wheel whose list of files has this one.
function(install_wheel_licence file)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${site_packages})
  file(GLOB lists ${site_packages}/*.dist-info/RECORD)
  foreach(list ${lists})
    file(STRINGS ${list} line REGEX "^${file}," LIMIT_COUNT 1)
    file(STRINGS ${list} texts REGEX "\\.dist-info/licenses/|/LICENSE[^/]*,")
    if(line AND texts)
      cmake_path(GET list PARENT_PATH wheel)
      cmake_path(GET wheel STEM LAST_ONLY name)
      list(TRANSFORM texts REPLACE ",.*" "")
      list(TRANSFORM texts PREPEND ${site_packages}/)
      file(INSTALL ${texts} DESTINATION ${licences}/${name} MESSAGE_NEVER)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${file}: no wheel in ${site_packages} has it and a licence")
endfunction()

# A distribution's package has its licence in copyright, which may name texts that all packages share.
function(install_package_licence file)
  # A package's list may have a library below /lib or below /usr/lib: both are the same folder.
  string(REGEX REPLACE "^/usr" "" other ${file})
  execute_process(COMMAND dpkg-query -S ${file} ${other} OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX REPLACE "[:,].*" "" package "${owner}")
  set(copyright /usr/share/doc/${package}/copyright)
  if(NOT package OR NOT EXISTS ${copyright})
    message(WARNING "${file}: no package with a copyright file owns it: add its licence yourself")
    return()
  endif()
  file(INSTALL ${copyright} DESTINATION ${licences}/${package} MESSAGE_NEVER)
  file(STRINGS ${copyright} lines REGEX "/usr/share/common-licenses/")
  string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]" texts "${lines}")
  list(REMOVE_DUPLICATES texts)
  foreach(text ${texts})
    if(EXISTS ${text})
      file(REAL_PATH ${text} source)
      cmake_path(GET text FILENAME name)
      file(INSTALL ${source} DESTINATION ${licences} RENAME ${name} MESSAGE_NEVER)
    endif()
  endforeach()
endfunction()

# Unlike those of the wheels, a distribution's libraries do not look beside themselves.
function(install_package_library file name)
  find_program(PATCHELF patchelf)
  if(NOT PATCHELF)
    message(FATAL_ERROR "patchelf is not installed; hint: apt-get install patchelf")
  endif()
  set(installed "$ENV{DESTDIR}${folder}/${name}")
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${folder}")
  message(STATUS "Installing: ${installed}")
  file(COPY_FILE ${file} "${installed}")  # not as file(INSTALL), which may make links: it is changed
  execute_process(COMMAND ${PATCHELF} --set-rpath $ORIGIN "${installed}" COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${folder}/${name}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
endfunction()

file(REAL_PATH "${site_packages}" site_packages)
foreach(link ${files})
  file(REAL_PATH ${link} file)
  cmake_path(GET link FILENAME name)
  cmake_path(IS_PREFIX site_packages ${file} is_of_wheels)
  if(component STREQUAL "wheels" AND is_of_wheels)
    file(INSTALL ${file} DESTINATION "${folder}" TYPE SHARED_LIBRARY)
    install_wheel_licence(${file})
  elseif(component STREQUAL "libraries" AND NOT is_of_wheels)
    install_package_library(${file} ${name})
    install_package_licence(${file})
  endif()
endforeach()
