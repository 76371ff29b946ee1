# ONNX as our own imported targets.
#   retina::onnx_proto  the file format and its checker: Debian's libonnx and protobuf. Never together
#                       with retina::torch in one source: LibTorch's headers carry another protobuf.
#   retina::openvino    runs models: OpenVINO's wheel, where it is installed beside LibTorch's

find_package(Protobuf REQUIRED)
find_path(RETINA_ONNX_HEADERS onnx/onnx_pb.h REQUIRED)
find_library(RETINA_ONNX_LIBRARY onnx REQUIRED)
find_library(RETINA_ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
add_library(retina_onnx_proto INTERFACE)
add_library(retina::onnx_proto ALIAS retina_onnx_proto)
target_include_directories(retina_onnx_proto SYSTEM INTERFACE ${RETINA_ONNX_HEADERS})
target_compile_definitions(retina_onnx_proto INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(retina_onnx_proto INTERFACE
  ${RETINA_ONNX_LIBRARY} ${RETINA_ONNX_PROTO_LIBRARY} protobuf::libprotobuf)

set(RETINA_OPENVINO ${RETINA_SITE_PACKAGES}/openvino)
file(GLOB RETINA_OPENVINO_LIBRARY ${RETINA_OPENVINO}/libs/libopenvino.so.*)
if(RETINA_OPENVINO_LIBRARY)
  add_library(retina_openvino INTERFACE)
  add_library(retina::openvino ALIAS retina_openvino)
  target_include_directories(retina_openvino SYSTEM INTERFACE ${RETINA_OPENVINO}/include)
  target_link_options(retina_openvino INTERFACE -Wl,-rpath-link,${RETINA_OPENVINO}/libs)
  # OpenVINO's TBB opens its binding to NUMA nodes with RTLD_DEEPBIND. A libhwloc that came with it would
  # free by glibc what tcmalloc has allocated: it is loaded with the program.
  target_link_libraries(retina_openvino INTERFACE ${RETINA_OPENVINO_LIBRARY}
    -Wl,--push-state,--no-as-needed ${RETINA_OPENVINO}/libs/libhwloc.so.15 -Wl,--pop-state)
else()
  message(STATUS "no OpenVINO in ${RETINA_SITE_PACKAGES}: ONNX models are written, but not run")
endif()
