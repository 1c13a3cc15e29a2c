cohort_add_unit_tests(formats LIBS cohort::formats nlohmann_json::nlohmann_json
  TOPICS event_file network_text onnx onnx_notes onnx_refused prometheus_text start_values timeline)
# Write files that their reader refuses.
get_target_property(protobuf_code cohort_formats INCLUDE_DIRECTORIES)
list(FILTER protobuf_code INCLUDE REGEX "/protobuf$")
foreach(topic onnx onnx_notes onnx_refused)
  target_include_directories(formats_${topic}_test SYSTEM PRIVATE ${protobuf_code})
  target_link_libraries(formats_${topic}_test PRIVATE protobuf::libprotobuf-lite)
endforeach()
