# `cmake --install`: the programs and all that they load but the C and C++ runtime, Open MPI and the
# GPU's driver, in a tree that runs wherever it is moved to. Its components:
#   programs   the four programs in bin/, what they open of our own in lib/retina-batch/
#   libraries  the distribution's libraries that these load
#   wheels     the libraries of the torch, openvino and NVIDIA wheels that these load
# The last two go to lib/retina-batch/, too, and their licences to share/doc/retina-batch/licences/.
# The image and the tar are all of it; the Python wheel has no component wheels, it requires these.
include(GNUInstallDirs)
set(libraries ${CMAKE_INSTALL_LIBDIR}/retina-batch)
cmake_path(RELATIVE_PATH libraries BASE_DIRECTORY ${CMAKE_INSTALL_BINDIR} OUTPUT_VARIABLE from_programs)

set(programs coco-pack retina-train retina-eval retina-convert)
set(modules retina_mpi retina_eval_model)
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/${from_programs}")
set_target_properties(${modules} PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(TARGETS ${modules} LIBRARY DESTINATION ${libraries} COMPONENT programs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)

# Opened by name, so that no linker table has them, and patterns of files below the wheels' folder:
# OpenVINO's device and its reader of ONNX; cuDNN's engines; the run-time compiler of LibTorch and
# cuDNN.
set(opened "")
if(TARGET retina::openvino)
  list(APPEND opened openvino/libs/libopenvino_intel_cpu_plugin.so
                     openvino/libs/libopenvino_onnx_frontend.so.*)
endif()
if(RETINA_WITH_CUDA)
  list(APPEND opened nvidia/cudnn/lib/libcudnn_*.so.9 nvidia/cu13/lib/libnvrtc.so.13
                     nvidia/cu13/lib/libnvrtc-builtins.so.13.* torch/lib/libcaffe2_nvrtc.so)
endif()

# All but libretina_mpi.so: Open MPI is the machine's own, the one whose mpirun starts the ranks.
list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE loading)
list(APPEND loading $<TARGET_FILE:retina_eval_model>)
foreach(component libraries wheels)
  install(CODE "
    set(component ${component})
    set(loading \"${loading}\")
    set(opened \"${opened}\")
    set(site_packages \"${RETINA_SITE_PACKAGES}\")
    set(folder \"${libraries}\")
    set(licences \"${CMAKE_INSTALL_DOCDIR}/licences\")" COMPONENT ${component})
  install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_libraries.cmake COMPONENT ${component})
endforeach()
