# `cmake --install`: the programs and all that they load but the C and C++ runtime, Open MPI and the
# GPU's driver, in a tree that runs wherever it is moved to. Its components:
#   programs   the four programs in bin/, what they open of our own in lib/retina-batch/
#   libraries  the distribution's libraries that these load
#   wheels     the libraries of the torch, openvino and NVIDIA wheels that these load
#   guard      only when it is named: the check of model files, with the distribution's libraries
# All libraries go to lib/retina-batch/, their licences to share/doc/retina-batch/licences/. The image
# and the tar are the first three; the Python wheel requires the wheels instead of having them.
include(GNUInstallDirs)
set(libraries ${CMAKE_INSTALL_LIBDIR}/retina-batch)

# retina_install_libraries(COMPONENT FROM distribution|wheels LOADED_BY targets [OPENED patterns]):
# what these targets and the files that match `OPENED` below the wheels' folder load.
function(retina_install_libraries component)
  cmake_parse_arguments(ARG "EXCLUDE_FROM_ALL" "FROM" "LOADED_BY;OPENED" ${ARGN})
  retina_no_stray_arguments()
  list(TRANSFORM ARG_LOADED_BY REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  set(all "")
  if(ARG_EXCLUDE_FROM_ALL)
    set(all EXCLUDE_FROM_ALL)
  endif()
  install(CODE "
    set(from ${ARG_FROM})
    set(loading \"${ARG_LOADED_BY}\")
    set(opened \"${ARG_OPENED}\")
    set(site_packages \"${RETINA_SITE_PACKAGES}\")
    set(folder \"${libraries}\")
    set(licences \"${CMAKE_INSTALL_DOCDIR}/licences\")" COMPONENT ${component} ${all})
  install(SCRIPT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/install_libraries.cmake COMPONENT ${component} ${all})
endfunction()

set_target_properties(retina_onnx_guard retina_mpi PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS retina_onnx_guard LIBRARY DESTINATION ${libraries} COMPONENT guard EXCLUDE_FROM_ALL)
retina_install_libraries(guard EXCLUDE_FROM_ALL FROM distribution LOADED_BY retina_onnx_guard)
if(NOT RETINA_WITH_TORCH)
  return()
endif()

set(programs coco-pack retina-train retina-eval retina-convert)
cmake_path(RELATIVE_PATH libraries BASE_DIRECTORY ${CMAKE_INSTALL_BINDIR} OUTPUT_VARIABLE from_programs)
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/${from_programs}")
set_target_properties(retina_eval_model PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(TARGETS retina_mpi retina_eval_model LIBRARY DESTINATION ${libraries} COMPONENT programs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)

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
# Not what libretina_mpi.so loads: Open MPI is the machine's own, the one whose mpirun starts the ranks.
set(loading LOADED_BY ${programs} retina_eval_model OPENED ${opened})
retina_install_libraries(libraries FROM distribution ${loading})
retina_install_libraries(wheels FROM wheels ${loading})
