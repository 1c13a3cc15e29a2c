cohort_add_unit_tests(formats LIBS cohort::formats nlohmann_json::nlohmann_json
  TOPICS event_file network_text onnx prometheus_text start_values timeline)
# Writes files that its reader refuses.
get_target_property(protobuf_code cohort_formats INCLUDE_DIRECTORIES)
list(FILTER protobuf_code INCLUDE REGEX "/protobuf$")
target_include_directories(formats_onnx_test SYSTEM PRIVATE ${protobuf_code})
target_link_libraries(formats_onnx_test PRIVATE protobuf::libprotobuf-lite)
