# `cmake --install`: the programs and all that they load but the C and C++ runtime, Open MPI and the
# GPU's driver, in a tree that runs wherever it is moved to. Its components:
#   programs   the four programs, retina-run and retina-weights in bin/, what they open of our own in lib/retina-batch/
#   libraries  the distribution's libraries that these load
#   wheels     the libraries of the torch, openvino and NVIDIA wheels that these load
#   guard      only when it is named: the server's part in C++, with the distribution's libraries
# All libraries go to lib/retina-batch/, their licences to share/doc/retina-batch/licences/, where SOURCES.txt
# names each with its version, its licence and where its source is. The image and the tar are the first
# three; the Python wheel requires the wheels instead of having them. One library is not installed: libjbig,
# under the GNU GPL, has retina_no_jbig in its place.
include(GNUInstallDirs)

# retina_install(COMPONENT WHAT TARGETS ... [OPENED patterns]): WHAT is `targets`, or the libraries of
# the `distribution` or of the `wheels` that these targets load, and those below the wheels' folder that
# match `OPENED`. Not by install(TARGETS): CMake makes room for the run path of that in the build's own
# by empty entries, and these mean the folder that a program happens to run in.
function(retina_install component what)
  cmake_parse_arguments(ARG "" "" "TARGETS;OPENED" ${ARGN})
  retina_no_stray_arguments()
  list(TRANSFORM ARG_TARGETS REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  set(only COMPONENT ${component})
  if(component STREQUAL "guard")
    list(APPEND only EXCLUDE_FROM_ALL)
  endif()
  install(CODE "
    set(what ${what})
    set(targets \"${ARG_TARGETS}\")
    set(opened \"${ARG_OPENED}\")
    set(site_packages \"${RETINA_SITE_PACKAGES}\")
    set(bin_folder \"${CMAKE_INSTALL_BINDIR}\")
    set(library_folder \"${CMAKE_INSTALL_LIBDIR}/retina-batch\")
    set(licence_folder \"${CMAKE_INSTALL_DOCDIR}/licences\")" ${only})
  install(SCRIPT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/install_files.cmake ${only})
endfunction()

retina_install(guard targets TARGETS retina_onnx_guard retina_no_jbig)
retina_install(guard distribution TARGETS retina_onnx_guard)
if(NOT RETINA_WITH_TORCH)
  return()
endif()

# Opened by name, so that no linker table has them: OpenVINO's device and its reader of ONNX; cuDNN's
# engines; the run-time compiler of LibTorch and cuDNN.
set(opened "")
if(TARGET retina::openvino)
  list(APPEND opened openvino/libs/libopenvino_intel_cpu_plugin.so
                     openvino/libs/libopenvino_onnx_frontend.so.*)
endif()
if(RETINA_WITH_CUDA)
  list(APPEND opened nvidia/cudnn/lib/libcudnn_*.so.9 nvidia/cu13/lib/libnvrtc.so.13
                     nvidia/cu13/lib/libnvrtc-builtins.so.13.* torch/lib/libcaffe2_nvrtc.so)
endif()
# Nothing that libretina_mpi.so alone loads: Open MPI is the machine's own, whose mpirun starts the ranks.
set(loading coco-pack retina-train retina-eval retina-convert retina_eval_model)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)
# The pages and what they link to, in the same folders.
file(GLOB pages RELATIVE ${CMAKE_SOURCE_DIR} *.md docs/*.md jobs/*/README.md shared/*/FORMAT.md tests/support/readme/*.jpg
     docker/*.conf docker/ssh*_config docker/serve.Dockerfile docs/site/build.py jobs/*.toml shared/image/warp.h
     tests/bench/serving/serving.py train/monitor/metrics_log.h)
foreach(room convert docker evaluate jobs preprocess python tests train)
  list(APPEND pages ${room}/README.md)
endforeach()
foreach(page ${pages})
  cmake_path(GET page PARENT_PATH folder)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT programs)
endforeach()
# The scripts look for their parts beside themselves, and for the programs where they are called.
set(weights_folder ${CMAKE_INSTALL_DATADIR}/retina-batch)
install(PROGRAMS docker/retina-weights docker/retina-run DESTINATION ${weights_folder} COMPONENT programs)
install(FILES docker/data_set.sh docker/download.sh docker/weights.txt DESTINATION ${weights_folder} COMPONENT programs)
cmake_path(RELATIVE_PATH weights_folder BASE_DIRECTORY ${CMAKE_INSTALL_BINDIR} OUTPUT_VARIABLE link)
install(CODE "
  file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  foreach(script retina-weights retina-run)
    file(CREATE_LINK ${link}/\${script}
         \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/\${script}\" SYMBOLIC)
  endforeach()"
        COMPONENT programs)
retina_install(programs targets TARGETS ${loading} retina_mpi)
retina_install(libraries distribution TARGETS ${loading} OPENED ${opened})
retina_install(libraries targets TARGETS retina_no_jbig)
retina_install(wheels wheels TARGETS ${loading} OPENED ${opened})
